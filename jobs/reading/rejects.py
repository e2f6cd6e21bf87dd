"""Rejected lines and files of one run, in words; the counts of all reasons add up to their number."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from jobs.landing.one_run import ReadRun

_SHOWN: Final = 3
"""How many are printed with what is wrong; answers for programs have all."""


def reject_texts(read: ReadRun) -> Iterator[str]:
    """State how many lines and files were rejected, and for which reasons, and show the first.

    Rows are those of files that are not made of lines: a step of a rank.
    """
    rejects = read.rejects.select(["reason", "detail", "source_file", "line"]).to_pylist()
    if not rejects:
        yield _none(read)
        return
    counted = {each.file.source_file: each.lines for each in read.account.files if each.lines is not None}
    by_unit: dict[str, list[dict[str, Any]]] = {"lines": [], "rows": [], "files": []}
    for row in rejects:
        of_lines = "lines" if row["source_file"] in counted else "rows"
        by_unit["files" if row["line"] is None else of_lines].append(row)
    for unit, rows in by_unit.items():
        if rows:
            of_all = f" of {sum(counted.values()):,}" if unit == "lines" else ""
            yield f"Rejected {unit}: {len(rows):,}{of_all}: {_reasons(rows)}"
    for row in rejects[:_SHOWN]:
        place = row["source_file"].rsplit("/", 1)[-1] + (f", line {row['line']}" if row["line"] else "")
        yield f"  {place}: {row['reason']}: {row['detail']}"
    if len(rejects) > _SHOWN:
        yield f"  and {len(rejects) - _SHOWN:,} more: --format json lists all"


def _none(read: ReadRun) -> str:
    if any(file.lines for file in read.account.files):
        return "Rejects: none; every line was read."
    return "Rejects: none." if read.rows.num_rows else "Rejects: none; no line was read."


def _reasons(rejects: Sequence[dict[str, Any]]) -> str:
    counts = Counter(row["reason"] for row in rejects).most_common()
    return ", ".join(f"{count:,} {reason}" for reason, count in counts)
