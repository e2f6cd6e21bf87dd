"""Sentences on the rejected lines and files of one run, with the number of rejects for each reason."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from jobs.landing.one_run import ReadRun

_SHOWN: Final = 3
"""Most rejects that are printed with their reason; --format json lists all."""


def reject_texts(read: ReadRun) -> Iterator[str]:
    """Yield sentences: how many lines and files were rejected for which reasons, and then the first rejects.

    A reject in a file that has no lines, such as one of a binary format, is a row: one step of one rank.
    """
    rejects = read.rejects.select(["reason", "detail", "source_file", "line"]).to_pylist()
    if not rejects:
        has_lines = any(file.lines for file in read.account.files)
        nothing_read = "Rejects: none." if read.rows.num_rows else "Rejects: none; no line was read."
        yield "Rejects: none; every line was read." if has_lines else nothing_read
        return
    counted = {each.file.source_file: each.lines for each in read.account.files if each.lines is not None}
    by_unit: dict[str, list[dict[str, Any]]] = {"lines": [], "rows": [], "files": []}
    for row in rejects:
        of_lines = "lines" if row["source_file"] in counted else "rows"
        by_unit["files" if row["line"] is None else of_lines].append(row)
    for unit, rows in by_unit.items():
        if rows:
            of_all = f" of {sum(counted.values()):,}" if unit == "lines" else ""
            counts = Counter(row["reason"] for row in rows).most_common()
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in counts)
            yield f"Rejected {unit}: {len(rows):,}{of_all}: {reasons}"
    for row in rejects[:_SHOWN]:
        place = row["source_file"].rsplit("/", 1)[-1] + (f", line {row['line']}" if row["line"] else "")
        yield f"  {place}: {row['reason']}: {row['detail']}"
    if len(rejects) > _SHOWN:
        yield f"  and {len(rejects) - _SHOWN:,} more: --format json lists all"
