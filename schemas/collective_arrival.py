"""collective_arrival: who came last to the collectives of a unit; evidence beside a replay, and never one."""

import pyarrow as pa

from schemas.fields import HOST, RANK, UNIT, count
from schemas.table import Column, Expectation, Table
from schemas.vocabulary import UNIT_KEY

COLLECTIVE_ARRIVAL = "collective_arrival"


def _microseconds(name: str, meaning: str) -> Column:
    return Column(name, pa.float64(), meaning, unit="us", minimum=0)


TABLE = Table(
    name=COLLECTIVE_ARRIVAL,
    meaning=(
        "One row per communicator and rank in it. All leave a collective together, so that whoever is in it "
        "for the shortest time came last. Only collectives of which every rank is recorded count. Nobody can "
        "tell from them what a late rank did before: they say whom to look at, not what it costs."
    ),
    grain=(*UNIT_KEY, "communicator", "rank"),
    columns=(
        *UNIT,
        Column("communicator", pa.string(), "as the tool names it: NCCL's hash, or a process group"),
        Column(RANK.name, RANK.type, "rank within the communicator, which is not the job's", minimum=0),
        HOST,
        count("collectives", "that all ranks of the communicator recorded"),
        count("times_last", "collectives to which this rank came last; ties to the lower rank"),
        _microseconds("mean_late_us", "how long after the first rank it came, on average"),
        _microseconds("mean_wait_us", "how long it waited for the last rank, on average"),
    ),
    expectations=(
        Expectation("last_is_a_part", "times_last <= collectives", "nobody is last more often than there"),
        Expectation("there_are_some", "collectives > 0", "a rank without a whole collective has no row"),
    ),
)
