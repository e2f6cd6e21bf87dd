"""Printing of rows for people and programs: aligned table, CSV, JSON, Markdown or tab-separated lines."""

import csv
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from io import StringIO
from typing import Any, Final, TextIO

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from jobs.runtime.fitting import complain_fitting, write_fitting, write_rows_as_lists
from jobs.runtime.plural import plural
from jobs.runtime.terminal import printable

TABLE: Final = "table"
FORMATS: Final = (TABLE, "csv", "json", "markdown", "tab")
_QUOTED_ENDS: Final = "\r\n"
"""End of a line for the CSV writer, which therefore quotes values that contain either character."""

_UNFOLDED: Final = 100_000
"""Width of a table in a file or a pipe, so that every row is on one line. [characters]"""

_NAMED: Final = 5
"""Limit on the columns that are named after they were left out for lack of room."""

_FOLDED: Final = 10
"""Width below which a column is no longer readable on a terminal."""

_GAP: Final = 3
"""Width between columns."""


def times_as_text(value: object, *, are_local: bool = False) -> object:
    """Convert times, also within structs and lists, to UTC text.

    are_local : whether times without a zone are in this process's time zone; if not, they are in UTC
    """
    if isinstance(value, datetime):
        in_utc = value.astimezone(UTC) if value.tzinfo or are_local else value
        text = in_utc.replace(tzinfo=None).isoformat(" ")
        return text.rstrip("0") if "." in text else text
    if isinstance(value, list):
        return [times_as_text(each, are_local=are_local) for each in value]
    if isinstance(value, dict):
        return {name: times_as_text(each, are_local=are_local) for name, each in value.items()}
    return value


@dataclass(frozen=True)
class Result:
    """Rows to print.

    is_number : for each column, whether to align it to the right; None: if it has no text
    is_cut : whether further rows were left out
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    is_number: Sequence[bool] | None = None
    is_cut: bool = False

    @property
    def aligned_right(self) -> Sequence[bool]:
        """Return, for each column, whether it is aligned to the right."""
        if self.is_number is not None:
            return self.is_number
        return [
            not any(isinstance(row[place], str) for row in self.rows) for place in range(len(self.columns))
        ]


def is_for_people(form: str | None, out: TextIO) -> bool:
    """Return whether the output is for people, who need headings and explanations."""
    return form in (TABLE, "markdown") or (form is None and out.isatty())


def write(result: Result, form: str | None, out: TextIO, *, as_lists: bool = False) -> None:
    """Write rows in one of FORMATS. CSV leaves null empty; JSON is one array of objects.

    CSV is exact in files and pipes; on a terminal, control characters are escaped.

    form     : None fits the rows to a terminal, and separates them by tabs in a file or a pipe.
    as_lists : write each row as a list of its columns instead.
    """
    write_batches([result], form, out, as_lists=as_lists)


def write_batches(
    batches: Iterable[Result], form: str | None, out: TextIO, *, as_lists: bool = False
) -> tuple[int, bool]:
    """Write batches of rows like `write`, each as soon as it arrives; there must be at least one batch.

    A format with aligned columns has a heading and widths of its own for each batch with rows.

    returns : number of rows, and whether the last batch was cut
    """
    rows, is_cut = 0, False

    def counted() -> Iterable[Result]:
        nonlocal rows, is_cut
        for batch in batches:
            if batch.rows or not rows:
                yield batch
            rows, is_cut = rows + len(batch.rows), batch.is_cut

    if as_lists:
        for batch in counted():
            names = [printable(name) for name in batch.columns]
            # `rows` is the number before this batch: a batch is counted once it is written.
            write_rows_as_lists(names, [[*map(shown, row)] for row in batch.rows], out, rows)
    elif form is None and out.isatty():
        _fit_batches(counted(), out)
    else:
        _WRITERS[form or "tab"](counted(), out)
    return rows, is_cut


def fit(result: Result, out: TextIO) -> None:
    """Write rows fitted to the terminal or page; name left-out columns on standard error."""
    _fit_batches([result], out)


def _fit_batches(batches: Iterable[Result], out: TextIO) -> None:
    left_out: dict[str, None] = {}
    for batch in batches:
        names = [*map(printable, batch.columns)]
        left_out |= dict.fromkeys(write_fitting(names, batch.rows, batch.aligned_right, out))
    if left_out:
        named = ", ".join([*left_out][:_NAMED])
        more = f" and {plural(len(left_out) - _NAMED, 'more column')}" if len(left_out) > _NAMED else ""
        complain_fitting(f"no room for {named}{more}: -x shows all, or SELECT fewer")


def _write_tab(batches: Iterable[Result], out: TextIO) -> None:
    """Write one line per row with exact values; null is empty, and control characters are escaped."""
    for row in _lines(batches):
        texts = ("" if each is None else printable(str(_flat(each))) for each in row)
        out.write("\t".join(texts) + "\n")


def _lines(batches: Iterable[Result]) -> Iterator[Sequence[Any]]:
    """Yield the names of the columns, once, and all rows."""
    for number, batch in enumerate(batches):
        if not number:
            yield batch.columns
        yield from batch.rows


def _write_table(batches: Iterable[Result], out: TextIO) -> None:
    """Write one line per row; on a narrow terminal values wrap, or rows become lists."""
    console = Console(file=out, width=None if out.isatty() else _UNFOLDED, emoji=False, highlight=False)
    before = 0
    for each in batches:
        batch = replace(each, columns=[*map(printable, each.columns)])
        if sum(min(_FOLDED, len(name)) + _GAP for name in batch.columns) > console.width:
            for number, row in enumerate(batch.rows, start=before + 1):
                console.print(Text(f"row {number}", "bold"))
                console.print(_one_row(batch.columns, row))
        else:
            console.print(_all_rows(batch))
        before += len(batch.rows)


def _all_rows(result: Result) -> RichTable:
    table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    for name, is_number in zip(result.columns, result.aligned_right, strict=True):
        table.add_column(Text(name), justify="right" if is_number else "left", overflow="fold")
    for row in result.rows:
        table.add_row(*map(_cell, row))
    return table


def _one_row(columns: Sequence[str], row: Sequence[object]) -> RichTable:
    table = RichTable(box=None, show_header=False, pad_edge=False)
    for name, value in zip(columns, row, strict=True):
        table.add_row(Text(name), _cell(value))
    return table


def _cell(value: object) -> Text:
    return Text(shown(value), "dim" if value is None else "")


def _write_csv(batches: Iterable[Result], out: TextIO) -> None:
    line = StringIO()
    lines = csv.writer(line, lineterminator=_QUOTED_ENDS)
    for row in _lines(batches):
        values = map(_flat, row)
        lines.writerow(printable(each) if isinstance(each, str) and out.isatty() else each for each in values)
        out.write(line.getvalue().removesuffix(_QUOTED_ENDS) + "\n")
        line.seek(0)
        line.truncate()


def _write_json(batches: Iterable[Result], out: TextIO) -> None:
    lines = _lines(batches)
    columns = next(lines)
    before = "[\n"
    for row in lines:
        out.write(before + _json(dict(zip(columns, map(_plain, row), strict=True))))
        before = ",\n"
    out.write("[]\n" if before == "[\n" else "\n]\n")


def _write_markdown(batches: Iterable[Result], out: TextIO) -> None:
    """Write a Markdown table, with numbers rounded as for people."""
    for number, batch in enumerate(batches):
        head: list[Iterable[str]] = []
        if not number:
            rules = ("---:" if is_number else "---" for is_number in batch.aligned_right)
            head = [map(printable, batch.columns), rules]
        for cells in (*head, *(map(_on_one_line, row) for row in batch.rows)):
            escaped = (cell.replace("|", "\\|") for cell in cells)
            out.write(f"| {' | '.join(escaped)} |\n")


_WRITERS: Final[Mapping[str, Callable[[Iterable[Result], TextIO], None]]] = {
    TABLE: _write_table,
    "csv": _write_csv,
    "json": _write_json,
    "markdown": _write_markdown,
    "tab": _write_tab,
}


def _on_one_line(value: object) -> str:
    return shown(" ".join(value.split()) if isinstance(value, str) else value)


def shown(value: object) -> str:
    """Return a value for people: six decimals, or four digits if it is small."""
    if value is None:
        return "null"
    if isinstance(value, float) and math.isfinite(value):
        return repr(round(value, 6)) if value == 0 or abs(value) >= 0.001 else f"{value:.4g}"
    return printable(str(_flat(value)))


def _flat(value: object) -> object:
    """Return a value, as JSON if it is nested."""
    return _json(_plain(value)) if isinstance(value, list | dict | tuple) else value


def _json(value: object) -> str:
    """Return JSON on one line, with control and invisible characters escaped."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return (
        text
        if text.isprintable()
        else "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)
    )


def _plain(value: object) -> object:
    """Convert a value for JSON; NaN and infinities become null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
