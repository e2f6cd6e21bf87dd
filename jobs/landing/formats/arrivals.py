"""Who came last to collectives, from how long each rank was in them."""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from schemas.collective_arrival import TABLE


class Attendance(NamedTuple):
    """One rank in one collective.

    meeting : equal for all ranks that take part, within the communicator
    rank, size : within the communicator
    inside_us : from its arrival to the end, which is one instant for all. [us]
    """

    communicator: str
    meeting: Hashable
    rank: int
    size: int
    inside_us: float
    host: str | None = None


def arrivals(attendances: Sequence[Attendance]) -> tuple[pa.Table, int]:
    """Rows of collective_arrival without the unit's key, by communicator and rank.

    returns : also how many collectives are left out, because a rank of them is not recorded
    """
    numbers: dict[Hashable, int] = {}
    meeting = np.array(
        [numbers.setdefault((each.communicator, each.meeting), len(numbers)) for each in attendances],
        np.int64,
    )
    members: dict[tuple[str, int], int] = {}
    member = np.array(
        [members.setdefault((each.communicator, each.rank), len(members)) for each in attendances], np.int64
    )
    size = np.array([each.size for each in attendances], np.int64)
    inside_us = np.array([each.inside_us for each in attendances], np.float64)
    order = np.lexsort((np.array([each.rank for each in attendances]), inside_us, meeting))
    is_whole = np.bincount(meeting, minlength=len(numbers))[meeting] == size
    order = order[is_whole[order]]
    meeting, member, inside_us = meeting[order], member[order], inside_us[order]
    is_last = np.diff(meeting, prepend=-1) != 0
    group = np.cumsum(is_last) - 1
    shortest_us = inside_us[is_last]
    longest_us = inside_us[np.diff(meeting, append=-1) != 0]
    hosts = {(each.communicator, each.rank): each.host for each in attendances}

    def total(values: npt.NDArray[np.float64]) -> list[float]:
        sums: list[float] = np.bincount(member, values, minlength=len(members)).tolist()
        return sums

    there = total(np.ones(len(member)))
    columns = (
        total(is_last * 1.0),
        total(longest_us[group] - inside_us),
        total(inside_us - shortest_us[group]),
    )
    rows = [
        {
            "communicator": communicator,
            "rank": rank,
            "host": hosts[communicator, rank],
            "collectives": int(collectives),
            "times_last": int(last),
            "mean_late_us": late_us / collectives,
            "mean_wait_us": wait_us / collectives,
        }
        for (communicator, rank), collectives, last, late_us, wait_us in zip(
            members, there, *columns, strict=True
        )
        if collectives
    ]
    rows.sort(key=lambda row: (row["communicator"], row["rank"]))
    return pa.Table.from_pylist(rows, TABLE.value_schema), len(numbers) - int(is_last.sum())
