"""Rows and rejects of a part of a unit on their way to staging, and what became of its files."""

from collections import ChainMap, Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from jobs.landing.accounts import FileAccount, Keys, UnitAccount, UnitPart
from jobs.landing.files import LandedFile
from jobs.landing.formats.rows import LIMITS, NO_ROWS, SCALARS, Bounds, Reject, Rows, text_of
from jobs.landing.read_foreign import plain
from jobs.landing.row_buffer import RowBuffer
from jobs.landing.staging import Staging
from schemas.vocabulary import REASON_DUPLICATE_RANK_STEP

_MOST_LEFT_OUT: Final = 100
"""Kinds of what is left out of a log; a trace may name thousands."""

_RANK, _STEP = SCALARS.index("rank"), SCALARS.index("step")


class Block(NamedTuple):
    """Some lines of a file, number `first` and on, and what they are; a trace has no lines."""

    first: int
    lines: Sequence[bytes]
    rows: Rows
    rejects: Sequence[Reject]


class UnitRows:
    """Rows and rejects of a part of a unit, and the account of it.

    buffer, keys : what counts so far; whoever reads a file takes it in once its end is reached
    """

    def __init__(self, part: UnitPart, bounds: Bounds, staging: Staging) -> None:
        self.part, self.bounds, self._staging = part, bounds, staging
        self.buffer = RowBuffer(part.unit, staging)
        self.keys: Keys = {}
        self.account = UnitAccount(part.unit, None)

    def another(self) -> RowBuffer:
        """Rows and rejects that may have to be dropped while these stay."""
        return RowBuffer(self.part.unit, self._staging.another())

    def known(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """What rows are held against: the unit's ids, and the sizes of a good manifest."""
        limits = manifest if manifest["manifest_status"] is None else {}
        _, job_id, run_id = self.part.unit
        return {"job_id": job_id, "run_id": run_id, **{name: limits.get(name) for name in LIMITS}}

    def once(self, block: Block, file: LandedFile, keys: Keys) -> tuple[Rows, list[Reject]]:
        """Rows that say of a (rank, step) what no line before has said; all others are rejects."""
        rows, rejects = block.rows, list(block.rejects)
        found = dict.fromkeys(keys_of(rows), file.source_file)
        before = (self.part.taken, self.keys, keys)
        if len(found) < len(rows.lines) or not all(found.keys().isdisjoint(each) for each in before):
            rows, again = repeated(block, ChainMap(keys, self.keys, self.part.taken), file.source_file)
            rejects += again
        keys |= found
        return rows, rejects

    def refuse(self, file: LandedFile, reject: Reject, digest: str | None = None) -> None:
        """Take a reject of a whole file."""
        self.account.files.append(self.refused(file, reject, digest))

    def refused(self, file: LandedFile, reject: Reject, digest: str | None = None) -> FileAccount:
        """Account of a file that is one reject."""
        self.buffer.add(file.source_file, NO_ROWS, [reject])
        return FileAccount(file, digest, rejects=1)


def left_out_of(counts: Mapping[str, int]) -> dict[str, int] | None:
    """What is left out of a log as the table jobs has it: the kinds that are most."""
    plainly: Counter[str] = Counter()
    for what, count in counts.items():
        plainly[plain(what)] += count
    most = dict(plainly.most_common(_MOST_LEFT_OUT))
    others = {"others": plainly.total() - sum(most.values())} if len(plainly) > len(most) else {}
    return most | others or None


def keys_of(rows: Rows) -> Iterator[tuple[int, int]]:
    """(rank, step) of each row."""
    return ((scalars[_RANK], scalars[_STEP]) for scalars in rows.scalars)


def repeated(
    block: Block, seen: Mapping[tuple[int, int], str], source_file: str
) -> tuple[Rows, list[Reject]]:
    """Take out of a block's rows those of a (rank, step) that was there before; return both."""
    own: dict[tuple[int, int], str] = {}
    is_new, again = [], []
    for (rank, step), line in zip(keys_of(block.rows), block.rows.lines, strict=True):
        known = own.get((rank, step)) or seen.get((rank, step))
        is_new.append(known is None)
        if known is None:
            own[rank, step] = source_file
            continue
        text = text_of(block.lines[line - block.first]) if block.lines else None
        detail = f"rank {rank}, step {step} is already in {known}"
        again.append(Reject(REASON_DUPLICATE_RANK_STEP, detail, line, text))
    return block.rows.where(np.array(is_new, dtype=bool)), again
