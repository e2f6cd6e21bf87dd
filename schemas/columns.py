"""Kinds of columns, columns that several tables share, and identities between columns.

A kind is a Column without its name and meaning: `seconds("actual_step_s", "recorded step time")`.
"""

from functools import partial
from typing import Final

import pyarrow as pa

from schemas.table import Column, Expectation

SAME_FORMULA: Final = 1e-12
"""Relative: both sides come from the same formula over the same float64 numbers; only rounding may differ."""
SAME_SUM: Final = 1e-9
"""Relative: both sides are sums over steps, taken in different orders."""

text = partial(Column, type=pa.string())
texts = partial(Column, type=pa.list_(pa.string()))
flag = partial(Column, type=pa.bool_())
integer = partial(Column, type=pa.int64())
number32 = partial(Column, type=pa.int32())
real = partial(Column, type=pa.float64())
instant = partial(Column, type=pa.timestamp("us", tz="UTC"))

count = partial(Column, type=pa.int64(), unit="count", minimum=0)
size = partial(Column, type=pa.int32(), unit="count")
seconds = partial(Column, type=pa.float64(), unit="s")
ratio = partial(Column, type=pa.float64(), unit="ratio")
fraction = partial(Column, type=pa.float64(), unit="fraction")
share = partial(fraction, maximum=1.0 + SAME_SUM)
gpu_hours = partial(Column, type=pa.float64(), unit="GPU h", nullable=True)

LOG_DATE: Final = Column("log_date", "day on which the producers wrote the logs; the partition", pa.date32())
UNIT: Final = (
    LOG_DATE,
    text("job_id", "training job, as the landing's folder names it; always text"),
    text("run_id", "run of the job, as the landing's folder names it; always text"),
)
"""The key of one unit of analysis: one run of one job on one log date."""


def interval(*names: str, unit: str = "fraction") -> tuple[Column, ...]:
    """Columns with the bounds of 90 % intervals around columns of these names."""
    return tuple(
        Column(
            f"{name}_{end}",
            f"{bound} of a 90 % interval around {name}; null where it has none",
            pa.float64(),
            unit=unit,
            nullable=True,
        )
        for name in names
        for end, bound in (("low", "lower end"), ("high", "upper end"))
    )


def in_order(*names: str) -> Expectation:
    """Return the expectation that both bounds of an interval are there or neither, around the value."""
    each = (
        f"({name}_low IS NULL) = ({name}_high IS NULL)"
        f" AND ({name}_low IS NULL OR coalesce({name} BETWEEN {name}_low AND {name}_high, false))"
        for name in names
    )
    return Expectation(
        "intervals_hold_their_value", " AND ".join(each), "an interval has both ends, around its value"
    )


SOURCE_FILE: Final = text("source_file", "path relative to the landing's root")
STEP: Final = integer("step", "training step number; sampled, not contiguous")
RANK: Final = number32("rank", "global rank within the run", minimum=0)
DP_RANK: Final = number32("dp_rank", "data-parallel coordinate", minimum=0)
PP_RANK: Final = number32("pp_rank", "pipeline stage", minimum=0)
HOST: Final = text("host", "machine on which the rank ran; null if not logged", nullable=True)

IDEAL_STEP: Final = seconds("ideal_step_s", "step time replayed with every duration ideal (T_ideal)")
WASTE_FRACTION: Final = fraction("waste_fraction", "1 - 1/slowdown: the part of the time lost (Eq. 3)")
GPU_HOURS: Final = gpu_hours(
    "gpu_hours", "GPU-hours allocated on this log date, from the manifest; null if it states none"
)
LOST_GPU_HOURS: Final = gpu_hours(
    "lost_gpu_hours",
    "GPU-hours that analysed units lose: see job_causes; null if no unit states them",
    minimum=0,
)
LOST_S: Final = seconds(
    "lost_s",
    "lost part of the recorded step time of analysed units, also without GPU-hours; null: none is analysed",
    nullable=True,
    minimum=0,
)
ANALYSED_S: Final = seconds(
    "analysed_s",
    "recorded step time of analysed units, summed over all steps; null: none is analysed",
    nullable=True,
    minimum=0,
)


def same(name: str, left: str, right: str, tolerance: float, meaning: str) -> Expectation:
    """Return the expectation that two SQL numbers agree, relative to the larger of 1 and |right|.

    Below 1 the tolerance is absolute: 1 - 1/slowdown always loses digits near 0.
    """
    condition = f"abs(({left}) - ({right})) <= {tolerance!r} * greatest(1, abs({right}))"
    return Expectation(name, condition, meaning)


WASTE_OF_SLOWDOWN: Final = same(
    "waste_fraction_of_slowdown",
    "waste_fraction",
    "1 - try_divide(1, slowdown)",
    SAME_FORMULA,
    "waste_fraction = 1 - 1/slowdown",
)
"""A slowdown of 0 breaks it."""
