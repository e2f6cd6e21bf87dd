"""collective_arrival: who came last to the collectives of a unit; evidence beside a replay, and never one."""

import pyarrow as pa

from schemas.fields import HOST, RANK, UNIT, count, described
from schemas.table import Column, Expectation, Table
from schemas.vocabulary import COLLECTIVE_ARRIVAL, UNIT_KEY


def _microseconds(name: str, meaning: str) -> Column:
    return Column(name, pa.float64(), meaning, unit="us", minimum=0)


TABLE = Table(
    name=COLLECTIVE_ARRIVAL,
    meaning=(
        "One row per communicator and rank in it, from logs of NCCL Inspector and traces of torch.profiler. "
        "All leave a collective together, so that the rank that is in it for the shortest time came last. "
        "Only collectives of which every rank is recorded count. They do not tell what a late rank did "
        "before: they say where to look, not what it costs."
    ),
    grain=(*UNIT_KEY, "communicator", "rank"),
    columns=(
        *UNIT,
        Column("communicator", pa.string(), "as the tool names it: NCCL's hash, or a process group"),
        described(
            RANK, "as the tool numbers it: NCCL within the communicator, torch.profiler within the job"
        ),
        HOST,
        count("collectives", "that all ranks of the communicator recorded"),
        count("times_last", "collectives to which this rank came last; ties to the lower rank"),
        _microseconds("mean_late_us", "how long after the first rank it came, on average"),
        _microseconds("mean_wait_us", "how long it waited for the last rank, on average"),
    ),
    expectations=(
        Expectation(
            "last_is_a_part", "times_last <= collectives", "no rank is last more often than it is there"
        ),
        Expectation("there_are_some", "collectives > 0", "a rank without a whole collective has no row"),
    ),
)
