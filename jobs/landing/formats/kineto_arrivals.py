"""Who came last to the collectives that torch.profiler recorded; evidence beside a replay."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from jobs.landing.formats.arrivals import Attendance, arrivals
from jobs.landing.formats.foreign import SourceFile
from jobs.landing.formats.kineto_trace import RankTrace, read_rank


def read_arrivals(files: Sequence[SourceFile]) -> tuple[pa.Table, int]:
    """Rows of collective_arrival without the unit's key; ranks are the job's.

    returns : also how many collectives are left out, because a rank of them is not recorded
    Collectives meet by group and Seq or by Comms Id; where the profiler wrote neither, the k-th of a kind and
    group in a step with the k-th. A kernel of NCCL runs from its own launch until all are there and done.
    Raises FileError for a file that breaks off.
    """
    found: list[Attendance] = []
    for file in files:
        with file.opened() as opened:
            found += _attendances(read_rank(opened))
    return arrivals(found)


def _attendances(trace: RankTrace) -> list[Attendance]:
    found = []
    order: Counter[tuple[Any, ...]] = Counter()
    wires = trace.communications
    for place, collective in enumerate(trace.collectives):
        if wires.step[place] < 0 or trace.distributed.rank is None:
            continue
        step = trace.steps[wires.step[place]]
        where = (step, collective.kind, collective.group)
        order[where] += 1
        size = collective.group_size or trace.distributed.world_size or 0
        found.append(
            Attendance(
                collective.group or "world",
                collective.key or (*where, order[where]),
                trace.distributed.rank,
                size,
                float(wires.duration_us[place]),
            )
        )
    return found
