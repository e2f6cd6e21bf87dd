"""Rows on their way from the landing to rank_steps: what became of each line, and where it stood."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from schemas.rank_steps import TABLE as RANK_STEPS
from schemas.vocabulary import UNIT_KEY

STATE_ROW: Final = "row"
STATE_REJECT: Final = "reject"
STATE_SUSPECT: Final = "suspect"
STATE_BLANK: Final = "blank"

LONGEST_TEXT: Final = 2000
"""Characters of a rejected line that are kept."""

PLACE: Final = ("source_file", "block_start", "position")
"""Where a row stood: sorted by these, the rows of a unit are in the order of its files and their lines."""

LANDED_SCHEMA: Final = pa.schema(
    [
        *RANK_STEPS.arrow_schema,
        pa.field("block_start", pa.int64()),  # where Spark's part of the file begins
        pa.field("position", pa.int64()),  # ascending within that part; null: the whole file
        pa.field("state", pa.string()),  # one of the STATE_ names
        pa.field("suspect", pa.binary()),  # the line itself, while nobody has looked at it closely
        pa.field("reason", pa.string()),  # of a reject; one of vocabulary.REJECT_REASONS
        pa.field("detail", pa.string()),  # of a reject: what is wrong, in a sentence
        pa.field("text", pa.string()),  # of a rejected line: how it begins
    ]
)
"""One row per line, blank ones too, or per (rank, step) of a published trace, or per unreadable file."""

LIMITS: Final = ("dp_size", "pp_size", "tp_size", "cp_size", "world_size")
"""Sizes from a good manifest that bound rank and coordinates; all null where there is no good manifest."""


def reject(place: Mapping[str, Any], reason: str, detail: str, text: str | None = None) -> dict[str, Any]:
    """One rejected row; `place` has the unit's key and the columns of PLACE."""
    kept = {name: place[name] for name in (*UNIT_KEY, *PLACE)}
    return {**kept, "state": STATE_REJECT, "reason": reason, "detail": detail, "text": text}


def batch_of(rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """Rows as one batch of LANDED_SCHEMA; what a row does not name is null."""
    return pa.RecordBatch.from_pylist(list(rows), schema=LANDED_SCHEMA)
