"""What keeps a run from being analysed, in words: files of which nothing was read, a manifest that lacks."""

import json
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from jobs.landing.files import MANIFEST
from jobs.landing.one_run import ReadRun
from schemas.unit import Unit

_MOST_FILES: Final = 5
"""Files that are named."""
_RANKS: Final = {"dp_size": "dp_rank", "pp_size": "pp_rank", "tp_size": "tp_rank", "cp_size": "cp_rank"}
"""Sizes, and the column of rank_steps that shows each."""


def unread_files(read: ReadRun) -> Iterator[str]:
    """Name the files of which every line was rejected, and the reason of the first."""
    first = {row["source_file"]: row["detail"] for row in reversed(read.rejects.to_pylist())}
    unread = [each for each in read.account.files if each.rejects and not each.rows]
    for each in unread[:_MOST_FILES]:
        lines = "nothing of it" if each.lines is None else f"none of its {each.lines:,} lines"
        yield f"{each.file.name}: {lines} could be read: {first[each.file.source_file]}"
    if len(unread) > _MOST_FILES:
        yield f"and {len(unread) - _MOST_FILES:,} more such files"


def manifest_template(unit: Unit, rows: pa.Table) -> Iterator[str]:
    """Show the fields that a job.json needs, as the rows of rank_steps suggest them; nothing without rows."""
    if not rows.num_rows:
        return
    fields: dict[str, Any] = {"job_id": unit.job_id, "run_id": unit.run_id}
    fields |= {size: _one_more(rows[rank]) for size, rank in _RANKS.items()}
    fields["vpp_size"] = _one_more(pc.list_flatten(rows["model_chunk"]))
    fields["world_size"] = 1
    for size in _RANKS:
        fields["world_size"] *= fields[size]
    yield f"The lines suggest this {MANIFEST}; check each number, a rank that left no log is not in it:"
    yield f"  {json.dumps(fields)}"


def _one_more(numbers: pa.ChunkedArray) -> int:
    """Return one more than the largest number, 1 where there is none."""
    largest: int | None = pc.max(numbers).as_py()
    return 1 if largest is None else largest + 1
