"""collective_arrival: which ranks come last to the collectives of a unit; evidence, not a replay."""

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
        "All ranks leave a collective together, so the rank with the shortest time in it came last. "
        "Only collectives with all ranks recorded count. They do not show what a late rank did "
        "before: they show where to look, not what it costs."
    ),
    grain=(*UNIT_KEY, "communicator", "rank"),
    columns=(
        *UNIT,
        Column("communicator", pa.string(), "as the tool names it: NCCL's hash, or a process group"),
        described(
            RANK, "as the tool numbers it: NCCL within the communicator, torch.profiler within the job"
        ),
        HOST,
        count("collectives", "collectives recorded by all ranks of the communicator"),
        count("times_last", "collectives to which this rank came last; ties to the lower rank"),
        _microseconds("mean_late_us", "how long after the first rank it came, on average"),
        _microseconds("mean_wait_us", "how long it waited for the last rank, on average"),
    ),
    expectations=(
        Expectation(
            "last_is_a_part",
            "times_last <= collectives",
            "no rank is last in more collectives than it takes part in",
        ),
        Expectation(
            "there_are_some", "collectives > 0", "a rank without a fully recorded collective has no row"
        ),
    ),
)
