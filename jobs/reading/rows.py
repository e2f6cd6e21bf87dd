"""Rows of a table or answer for notebooks, with conversions to pandas and polars."""

import io
from dataclasses import dataclass
from html import escape
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from jobs.runtime.extras import missing
from jobs.runtime.fitting import write_fitting
from jobs.runtime.printing import times_as_text

if TYPE_CHECKING:
    from pandas import DataFrame
    from polars import DataFrame as PolarsFrame

_SHOWN: Final = 20
"""Most rows that a notebook shows of an answer."""


@dataclass(frozen=True, repr=False)
class Rows:
    """Rows of a table or an answer; `arrow` is the Arrow table."""

    arrow: pa.Table

    def pandas(self) -> "DataFrame":
        """Return the rows as a pandas DataFrame."""
        try:
            found: DataFrame = self.arrow.to_pandas()
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(missing(error), name=error.name) from None
        return found

    def polars(self) -> "PolarsFrame":
        """Return the rows as a polars DataFrame; polars has to be installed."""
        try:
            from polars import DataFrame, from_arrow  # noqa: PLC0415  # optional
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(missing(error), name=error.name) from None

        found = from_arrow(self.arrow)
        if not isinstance(found, DataFrame):
            raise TypeError("polars returned no DataFrame")
        return found

    df, pl = pandas, polars  # the names that DuckDB's answers have for these

    def __len__(self) -> int:
        return int(self.arrow.num_rows)

    def __repr__(self) -> str:
        """Return the first rows fitted to a page, the number of rows, and the columns left out."""
        kinds = self.arrow.schema.types
        is_number = [pa.types.is_integer(each) or pa.types.is_floating(each) for each in kinds]
        head = self.arrow.slice(0, _SHOWN).to_pylist(maps_as_pydicts="strict")
        rows = [[times_as_text(value) for value in row.values()] for row in head]
        out = io.StringIO()
        left_out = write_fitting(self.arrow.column_names, rows, is_number, out)
        shown = f" ({_SHOWN} shown)" if len(self) > _SHOWN else ""
        more = f"; no room for {', '.join(left_out)}: SELECT fewer, or .arrow has all" if left_out else ""
        return f"{out.getvalue()}{len(self):,} {'row' if len(self) == 1 else 'rows'}{shown}{more}"

    def _repr_html_(self) -> str:
        if find_spec("pandas") is None:
            return f"<pre>{escape(repr(self))}</pre>"
        return f"{Rows(self.arrow.slice(0, _SHOWN)).pandas().to_html()}<p>{len(self):,} rows</p>"
