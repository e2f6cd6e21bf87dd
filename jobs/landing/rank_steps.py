"""Choice of the one row to store for each (rank, step), when files repeat or contradict each other."""

import hashlib
from collections import ChainMap, Counter
from collections.abc import Callable, Mapping

import numpy as np

from jobs.landing.accounts import Repeats, UnitPart
from jobs.landing.files import LandedFile
from jobs.landing.formats.rows import SCALARS, Reject, Rows
from schemas.vocabulary import Reason

_RANK, _STEP = SCALARS.index("rank"), SCALARS.index("step")
_Key = tuple[int, int]


class RankSteps:
    """Rank-steps of one part of a unit that have been read so far.

    keys : (rank, step) of the rows -> file of the first
    repeats : digests of rows whose (rank, step) an earlier file has too
    contested : number of (rank, step) for which two files have different rows, by source_file of both
    denied : (rank, step) of which no row is stored, because files contradict each other -> file of the first
    """

    def __init__(self, part: UnitPart, before: "RankSteps | None" = None) -> None:
        self._part = part
        self.keys: ChainMap[_Key, str] = before.keys.new_child() if before else ChainMap()
        self.repeats: Repeats = {}
        self.contested: Counter[tuple[str, str]] = Counter()
        self.denied: ChainMap[_Key, str] = before.denied.new_child() if before else ChainMap()

    def another(self) -> "RankSteps":
        """Return a child for files that may be truncated; its rank-steps count only after `take(child)`."""
        return RankSteps(self._part, self)

    def take(self, other: "RankSteps") -> None:
        """Add the rank-steps of a child that `another` returned."""
        self.keys.maps[0].update(other.keys.maps[0])
        for key, files in other.repeats.items():
            self.repeats.setdefault(key, {}).update(files)
        self.contested.update(other.contested)
        self.denied.maps[0].update(other.denied.maps[0])

    def believed(
        self, rows: Rows, file: LandedFile, text: Callable[[int], str | None]
    ) -> tuple[Rows, list[Reject]]:
        """Return the rows of a file to store, one row for each (rank, step), and other rows as rejects.

        text : returns the beginning of the line with a given number
        """
        keys = [(scalars[_RANK], scalars[_STEP]) for scalars in rows.scalars]
        found = dict.fromkeys(keys, file.source_file)
        known: tuple[Mapping[_Key, object], ...] = (
            *self.keys.maps,
            self._part.taken,
            self._part.suspected,
        )
        is_own = file.rank is None or all(rank == file.rank for rank, _ in keys)
        if is_own and len(found) == len(keys) and all(each.keys().isdisjoint(found) for each in known):
            self.keys.maps[0].update(found)
            return rows, []
        why = [self._judged(key, rows, place, file) for place, key in enumerate(keys)]
        refused = [
            Reject(*each, line, text(line)) for line, each in zip(rows.lines, why, strict=True) if each
        ]
        return rows.where(np.array([each is None for each in why], dtype=bool)), refused

    def _judged(self, key: _Key, rows: Rows, place: int, file: LandedFile) -> tuple[str, str] | None:
        """Return the reject reason and explanation of a row that is not stored; None if the row is stored."""
        (rank, step), own = key, file.source_file
        if file.rank is not None and rank != file.rank:
            return Reason.IDENTITY_MISMATCH, f"a line of rank {rank} in the log of rank {file.rank}"
        first = self.keys.get(key) or self._part.taken.get(key)
        if first is None:
            self.keys[key] = own
            others = self._part.suspected.get(key, {})
            digest = _digest(rows, place) if others else ""
            other = next((name for name in sorted(others) if name != own and others[name] != digest), None)
            if other is None:
                return None
            self.denied[key] = own
            self.contested[own, other] += 1
            detail = f"rank {rank}, step {step}: {other} contradicts it: both are rejected"
            return Reason.CONTESTED_RANK_STEP, detail
        if first != own:
            self.repeats.setdefault(key, {}).setdefault(own, _digest(rows, place))
            if key in self.denied:
                detail = f"rank {rank}, step {step}: several files contradict each other"
                return Reason.CONTESTED_RANK_STEP, f"{detail}: all of them are rejected"
        return Reason.DUPLICATE_RANK_STEP, f"rank {rank}, step {step} is already in {first}"


def merged(repeats: Repeats, others: Repeats) -> Repeats:
    """Merge the digests of repeated rows by (rank, step) and file."""
    return {key: {**repeats.get(key, {}), **others.get(key, {})} for key in (*repeats, *others)}


def _digest(rows: Rows, place: int) -> str:
    first = int(rows.lengths[:place].sum())
    found = hashlib.sha256(repr(rows.scalars[place]).encode())
    for values in rows.lists:
        found.update(values[first : first + int(rows.lengths[place])].tobytes())
    return found.hexdigest()
