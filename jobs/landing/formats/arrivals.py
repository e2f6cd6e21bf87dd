"""Find which rank came last to each collective, by the time that each rank spent in the collective."""

from array import array
from collections import Counter
from collections.abc import Hashable
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from jobs.landing.formats.rows import Floats, Ints
from schemas.ingested_tables import COLLECTIVE_ARRIVAL as TABLE

_LARGEST_RANK: Final = 2**31 - 1
_LONGEST_US: Final = 1e15
_LONGEST_NAME: Final = 200


class Attendance(NamedTuple):
    """One rank's time in one collective.

    meeting : key of the collective within its communicator, equal on all ranks that take part
    rank : as the tool numbers it; size : number of ranks that take part
    inside_us : time from the rank's arrival to the end of the collective, which is one instant for all. [us]
    """

    communicator: str
    meeting: Hashable
    rank: int
    size: int
    inside_us: float
    host: str | None = None


class Arrivals:
    """Attendances of one run, stored as columns; one attendance takes about 32 bytes.

    most : most attendances that are stored; further ones are counted in `left_out`
    left_out : description of the attendances and collectives that cannot be used -> their number
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._meeting, self._member, self._size = array("q"), array("q"), array("q")
        self._inside_us = array("d")
        self._members: dict[tuple[str, int], int] = {}
        self._hosts: list[str | None] = []
        self.left_out: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._member)

    def add(self, each: Attendance) -> None:
        """Add one rank's attendance of one collective."""
        is_possible = 0 <= each.rank <= _LARGEST_RANK and 0 <= each.inside_us <= _LONGEST_US
        if len(self) >= self._most:
            self.left_out[f"ranks in collectives beyond the first {self._most}"] += 1
        elif not is_possible or not 2 <= each.size <= _LARGEST_RANK:
            self.left_out["collectives of a single rank, or with impossible numbers"] += 1
        else:
            name = each.communicator[:_LONGEST_NAME]
            member = self._members.setdefault((name, each.rank), len(self._members))
            if member == len(self._hosts):
                self._hosts.append(each.host and each.host[:_LONGEST_NAME])
            self._meeting.append(hash((name, each.meeting)))  # 64 bits; the key takes far more
            self._member.append(member)
            self._size.append(each.size)
            self._inside_us.append(each.inside_us)

    def forget(self, length: int, left_out: Counter[str]) -> None:
        """Drop the attendances of a truncated file: keep the first `length` ones, and reset `left_out`."""
        for column in (self._meeting, self._member, self._size, self._inside_us):
            del column[length:]
        self.left_out = left_out

    def table(self) -> pa.Table:
        """Return rows of collective_arrival without the unit's key, sorted by communicator and rank.

        Call it once: it counts the collectives with an unrecorded rank in `left_out`.
        """
        rank = np.array([rank for _, rank in self._members], np.int64)
        meeting, member, size = (np.array(each) for each in (self._meeting, self._member, self._size))
        names, communicator = np.unique([name for name, _ in self._members], return_inverse=True)
        has_left_any = np.bincount(member, minlength=len(rank)) > 0
        recorded = np.bincount(communicator[has_left_any], minlength=len(names))[communicator]
        wanted = np.where(recorded[member] > 1, np.minimum(size, recorded[member]), size)
        unrecorded = np.zeros(len(rank), np.int64)
        np.maximum.at(unrecorded, member, size - wanted)
        meetings, inside_us, member, missing = _whole(
            meeting, member, wanted, np.array(self._inside_us), rank
        )
        if missing:
            self.left_out["collectives with an unrecorded rank"] += missing
        first = np.flatnonzero(np.diff(meetings, prepend=-1) != 0)  # the last to arrive has the shortest time
        counts = np.diff(first, append=len(meetings))
        shortest_us = np.repeat(inside_us[first], counts)
        longest_us = np.repeat(np.maximum.reduceat(inside_us, first) if len(first) else inside_us, counts)
        there = np.bincount(member, minlength=len(rank))
        late_us = np.bincount(member, longest_us - inside_us, len(rank))
        wait_us = np.bincount(member, inside_us - shortest_us, len(rank))
        known = np.flatnonzero(there)
        columns = [
            pa.array([communicator for communicator, _ in self._members], pa.string()).take(known),
            rank[known],
            pa.array(self._hosts, pa.string()).take(known),
            there[known],
            np.bincount(member[first], minlength=len(rank))[known],
            late_us[known] / there[known],
            wait_us[known] / there[known],
            unrecorded[known],
        ]
        schema = TABLE.value_schema
        arrays = [pa.array(values).cast(each.type) for values, each in zip(columns, schema, strict=True)]
        rows = pa.Table.from_arrays(arrays, schema=schema)
        return rows.sort_by([("communicator", "ascending"), ("rank", "ascending")])


def _whole(
    meeting: Ints, member: Ints, size: Ints, inside_us: Floats, rank: Ints
) -> tuple[Ints, Floats, Ints, int]:
    """Select the attendances of collectives in which every expected rank was recorded, one for each rank.

    size : number of ranks expected in the collective of each attendance
    returns : number of the collective, time inside [us] and member, of each attendance, sorted by collective,
        time and rank; and the number of collectives that were left out
    """
    _, first_seen, meeting = np.unique(meeting, return_index=True, return_inverse=True)
    meeting = np.argsort(np.argsort(first_seen))[meeting]  # the order of hashes differs by process
    order = np.lexsort((inside_us, rank[member], meeting))
    is_new = (np.diff(meeting[order], prepend=-1) != 0) | (np.diff(member[order], prepend=-1) != 0)
    chosen = order[is_new]
    is_short = np.bincount(meeting[chosen])[meeting[chosen]] != size[chosen]
    is_whole = np.bincount(meeting[chosen], is_short) == 0
    chosen = chosen[is_whole[meeting[chosen]]]
    chosen = chosen[np.lexsort((rank[member[chosen]], inside_us[chosen], meeting[chosen]))]
    return meeting[chosen], inside_us[chosen], member[chosen], int((~is_whole).sum())
