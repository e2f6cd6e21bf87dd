"""Format tables as aligned text, as Markdown and as JSON."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from io import StringIO
from typing import Final

import pandas as pd
from pandas.api.types import is_numeric_dtype

from jobs.runtime.printing import Result, write
from tests.evaluation.judge import Row

FORMATS: Final = ("text", "markdown", "json")


@dataclass(frozen=True)
class Section:
    """A table with its title and one sentence of explanation.

    Columns whose name ends with [%] have two decimals, other non-integers three.
    """

    title: str
    note: str
    rows: pd.DataFrame


def percent(column: "pd.Series[bool]") -> float:
    """Percentage of the true values among all values that are not null."""
    known = column.dropna()
    return 100 * float(known.astype(float).mean()) if len(known) else float("nan")


def drawn(judge: Callable[[int], Row | None], seed: int, rows: int) -> tuple[pd.DataFrame, int]:
    """Judge consecutive seeds until `rows` of them give a row; return these rows and the last seed."""
    found: list[Row] = []
    while len(found) < rows:
        row = judge(seed)
        found += [] if row is None else [row]
        seed += 1
    return pd.DataFrame(found), seed - 1


def rendered(heading: str, sections: Sequence[Section], form: str) -> str:
    """Render all sections in one of FORMATS, with a line break at the end."""
    if form == "json":
        tables = [{"title": each.title, "note": each.note, "rows": _records(each.rows)} for each in sections]
        return json.dumps({"heading": heading, "sections": tables}, indent=1) + "\n"
    parts = [heading]
    for section in sections:
        title = f"### {section.title}" if form == "markdown" else section.title.upper()
        parts += [title, section.note, _table(section.rows, form)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(rows: pd.DataFrame, form: str) -> str:
    """Render one table with cells formatted for people."""
    if rows.empty:
        return "There are none."
    names = [str(name) for name in rows.columns]
    cells = zip(*(map(partial(_shown, name), rows[name]) for name in names), strict=True)
    is_number = [is_numeric_dtype(rows[name].infer_objects()) for name in names]
    out = StringIO()
    write(Result(names, list(cells), is_number), "table" if form == "text" else form, out)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines() if line.strip())


def _records(rows: pd.DataFrame) -> list[dict[str, object]]:
    """Convert a table to records with unrounded numbers; nan becomes null because JSON has no nan."""
    return [
        {str(name): None if _is_missing(value) else value for name, value in row.items()}
        for row in rows.to_dict(orient="records")
    ]


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _shown(name: str, value: object) -> str:
    if _is_missing(value):
        return "-"
    if isinstance(value, float):
        return f"{value:.2f}" if name.endswith("[%]") else f"{value:.3f}"
    return str(value)
