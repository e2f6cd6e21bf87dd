"""gpu_type_slowdown: what mixing types of GPU costs a unit whose logs state the type of each host."""

from typing import Final

from schemas import columns as col
from schemas.table import Expectation, Table
from schemas.vocabulary import NOT_STATED, UNIT_KEY

MOST_TYPES: Final = 16
"""Of a unit, those of most workers: each is replayed, and no job is on more than a few."""

GPU_TYPE_SLOWDOWN: Final = Table(
    "gpu_type_slowdown",
    "One row per type of GPU of a replayed unit, where its replayed workers are on two known types or more; "
    f"workers on hosts of unknown type are the type {NOT_STATED}. A worker has the type of the host of "
    "its replayed rank. Means per type mix stages; factors compare types within stages, on usual computes. "
    "time_saved_fraction and saved_gpu_hours are of the unit, the same in each of its rows: never sum "
    "them over types.",
    grain=(*UNIT_KEY, "gpu_type"),
    columns=(
        *col.UNIT,
        col.text(
            "gpu_type",
            f"as the log spells it; {NOT_STATED}: not known, or not of the {MOST_TYPES} with most workers",
        ),
        col.size("workers", "workers of the type", minimum=1),
        col.size("hosts", "hosts of their replayed ranks, where logged", minimum=0),
        col.seconds(
            "forward_ideal_s",
            "mean forward-compute of its workers, the paper's ideal of them alone; null without any",
            nullable=True,
            minimum=0,
        ),
        col.seconds("backward_ideal_s", "the same of backward-computes", nullable=True, minimum=0),
        col.ratio(
            "factor",
            "how many times as long its usual computes take as those of the fastest type in the same stages, "
            "geometric mean of both directions; null if that cannot be known",
            nullable=True,
            minimum=1,
        ),
        col.ratio("forward_factor", "factor of forward-computes alone", nullable=True, minimum=0),
        col.ratio("backward_factor", "factor of backward-computes alone", nullable=True, minimum=0),
        col.flag("is_slower", "the factor is beyond doubt: its log is above 0.03 and 3.5 standard errors"),
        col.ratio(
            "slowdown",
            "step time with all ops of its workers as recorded and all else ideal, over T_ideal (S_type, "
            "like Eq. 2)",
        ),
        col.share(
            "time_saved_fraction",
            "(T_with - T') / T_actual of the unit: T_with is its replay as it ran, T' the same with computes "
            "of types with is_slower divided by their factor, as if all were on the fastest type. As in "
            "job_causes, of mixed_hardware; null without factors",
            nullable=True,
        ),
        col.gpu_hours("saved_gpu_hours", "gpu_hours of the unit x time_saved_fraction; null if either is"),
    ),
    expectations=(
        Expectation(
            "factors_together",
            "(factor IS NULL) = (forward_factor IS NULL) AND (factor IS NULL) = (backward_factor IS NULL)",
            "a type has all three factors or none",
        ),
        Expectation(
            "slower_types_have_a_factor",
            "NOT is_slower OR coalesce(factor > 1, false)",
            "a type that is slower has a factor above 1",
        ),
    ),
)
