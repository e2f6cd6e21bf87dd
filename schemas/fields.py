"""Columns that several tables share, each declared once, and the tolerances of identities between them."""

from dataclasses import replace
from typing import Final

import pyarrow as pa

from schemas.table import Column, Expectation

SAME_FORMULA: Final = 1e-12
"""Relative: both sides come from the same formula over the same float64 numbers; only rounding may differ."""

SAME_SUM: Final = 1e-9
"""Relative: both sides are sums over steps, taken in different orders."""

LOG_DATE: Final = Column("log_date", pa.date32(), "day on which the producers wrote the logs; the partition")
JOB_ID: Final = Column("job_id", pa.string(), "training job, as the landing's folder names it; always text")
RUN_ID: Final = Column("run_id", pa.string(), "run of the job, as the landing's folder names it; always text")
UNIT: Final = (LOG_DATE, JOB_ID, RUN_ID)
"""The key of one unit of analysis: one run of one job on one log date."""

SOURCE_FILE: Final = Column("source_file", pa.string(), "path relative to the landing's root")

STEP: Final = Column("step", pa.int64(), "training step number; sampled, not contiguous")
RANK: Final = Column("rank", pa.int32(), "global rank within the run", minimum=0)
DP_RANK: Final = Column("dp_rank", pa.int32(), "data-parallel coordinate", minimum=0)
PP_RANK: Final = Column("pp_rank", pa.int32(), "pipeline stage", minimum=0)
HOST: Final = Column("host", pa.string(), "machine on which the rank ran; null if not logged", nullable=True)

ACTUAL_STEP: Final = Column(
    "actual_step_s",
    pa.float64(),
    "recorded step time: latest end minus earliest start of the replayed ranks' ops (T_actual)",
    unit="s",
)
SIMULATED_STEP: Final = Column(
    "simulated_step_s", pa.float64(), "step time replayed with recorded durations (T)", unit="s"
)
IDEAL_STEP: Final = Column(
    "ideal_step_s", pa.float64(), "step time replayed with every duration ideal (T_ideal)", unit="s"
)

SLOWDOWN: Final = Column("slowdown", pa.float64(), "replayed over ideal step time", unit="ratio")
WASTE_FRACTION: Final = Column(
    "waste_fraction", pa.float64(), "1 - 1/slowdown: the part of the time lost (Eq. 3)", unit="fraction"
)
GPU_HOURS: Final = Column(
    "gpu_hours",
    pa.float64(),
    "GPU-hours allocated on this log date, from the manifest; null if it states none",
    unit="GPU h",
    nullable=True,
)

LOST_GPU_HOURS: Final = Column(
    "lost_gpu_hours",
    pa.float64(),
    "GPU-hours that analysed units lose: see job_causes; null if no unit states them",
    unit="GPU h",
    nullable=True,
    minimum=0,
)
LOST_S: Final = Column(
    "lost_s",
    pa.float64(),
    "lost part of the recorded step time of analysed units, also without GPU-hours; null: none is analysed",
    unit="s",
    nullable=True,
    minimum=0,
)
ANALYSED_S: Final = Column(
    "analysed_s",
    pa.float64(),
    "recorded step time of analysed units, summed over all steps; null: none is analysed",
    unit="s",
    nullable=True,
    minimum=0,
)


def count(name: str, meaning: str, *, nullable: bool = False) -> Column:
    """Return a column that counts something: a 64-bit integer that is never negative."""
    return Column(name, pa.int64(), meaning, unit="count", nullable=nullable, minimum=0)


def described(
    column: Column, meaning: str, *, name: str | None = None, nullable: bool | None = None
) -> Column:
    """Return the column with another meaning and, if given, another name or nullability."""
    is_nullable = column.nullable if nullable is None else nullable
    return replace(column, meaning=meaning, name=name or column.name, nullable=is_nullable)


def same(name: str, left: str, right: str, tolerance: float, meaning: str) -> Expectation:
    """Return the expectation that two SQL numbers agree, relative to the larger of 1 and the right one.

    Below 1 the tolerance is absolute: 1 - 1/slowdown always loses digits near 0.
    """
    return Expectation(
        name, f"abs(({left}) - ({right})) <= {tolerance!r} * greatest(1, abs({right}))", meaning
    )


def waste_of(slowdown: str = "slowdown", waste: str = "waste_fraction") -> Expectation:
    """Return the expectation waste = 1 - 1/slowdown; a slowdown of 0 breaks it."""
    return same(
        f"{waste}_of_{slowdown}",
        waste,
        f"1 - try_divide(1, {slowdown})",
        SAME_FORMULA,
        f"{waste} = 1 - 1/{slowdown}",
    )
