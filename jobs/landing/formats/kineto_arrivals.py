"""Who came last to the collectives that torch.profiler recorded; evidence beside a replay."""

from collections import Counter
from typing import Any

from jobs.landing.formats.arrivals import Arrivals, Attendance
from jobs.landing.formats.foreign import SourceFile
from jobs.landing.formats.kineto_place import ranks_of
from jobs.landing.formats.kineto_trace import SEND_RECV, Collective, RankTrace, read_rank


def add_arrivals(trace: RankTrace, found: Arrivals) -> None:
    """Add the collectives of one rank; ranks are the job's.

    Collectives meet by group and Seq or by Comms Id; where the profiler wrote neither, the k-th of a kind and
    group in a step with the k-th. A kernel of NCCL runs from its own launch until all are there and done.
    """
    about = trace.distributed
    if about.rank is None:
        return
    first_ranks: dict[str | None, int] = {
        name: ranks[0]
        for group in about.pg_config or ()
        if (ranks := ranks_of(group))
        for name in (group.pg_desc, group.pg_name)
        if isinstance(name, str)
    }
    order: Counter[tuple[Any, ...]] = Counter()
    for place, collective in enumerate(trace.collectives):
        step = trace.communications.step[place]
        if step < 0 or _is_to_one(collective, trace):
            continue
        where = (trace.steps[step], collective.kind, collective.group, collective.group_name)
        order[where] += 1
        first = first_ranks.get(collective.group_name, first_ranks.get(collective.group))
        name = collective.group or "world"
        found.add(
            Attendance(
                name if not first else f"{name} from rank {first}",
                (collective.group_name, collective.key or (*where, order[where])),
                about.rank,
                collective.group_size or about.world_size or 0,
                float(trace.communications.duration_us[place]),
            )
        )


def read_arrivals(file: SourceFile, found: Arrivals) -> None:
    """Add the collectives of a file. Raises FileError for one that breaks off."""
    with file.opened() as opened:
        add_arrivals(read_rank(opened), found)


def _is_to_one(collective: Collective, trace: RankTrace) -> bool:
    """Whether it is a send or recv. Without a group, and without a pipeline, all exchange with all."""
    return collective.kind == SEND_RECV and (collective.group is not None or bool(trace.actions))
