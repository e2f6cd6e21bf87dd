"""The table job_time: how the GPU-hours of a run on a day were spent."""

from typing import Final

from schemas import columns as col
from schemas.table import Table
from schemas.vocabulary import UNIT_KEY

KNOWN_PARTS: Final = {
    "productive": "ideal time of kept steps, which no restart repeats (T_ideal)",
    "straggling": "replayed less ideal time of kept steps (T - T_ideal): what slow ops cost; negative if the "
    "ideal time is longer",
    "late_start": "recorded less replayed time of kept steps (T_actual - T): what late starts of ops cost; "
    "negative if the replayed time is longer",
    "lost_work": "GPU-hours of steps that were repeated after a restart, or have to be repeated",
    "outage": "GPU-hours from a failure to the next start, as far as the manifest's GPU-hours leave room",
    "startup": "GPU-hours from a start to the first step",
    "checkpoint": "GPU-hours in which training stood still to save a checkpoint",
    "evaluation": "GPU-hours in which training stood still for an evaluation",
    "data_loading": "GPU-hours in which training stood still to load data, between steps",
}
"""Parts of a unit's GPU-hours that events and replay show; keys are prefixes of column names."""
MAY_BE_NEGATIVE: Final = ("straggling", "late_start")
_SUM: Final = " + ".join(f"{name}_gpu_hours" for name in (*KNOWN_PARTS, "unknown"))

_EFFECTIVE: Final = "productive_gpu_hours + straggling_gpu_hours + late_start_gpu_hours"

JOB_TIME: Final = Table(
    "job_time",
    "One row per replayed unit that has events and GPU-hours: how its GPU-hours were spent. The parts add "
    "up; unknown time is unknown, never productive. A unit without a row is wholly unknown.",
    grain=UNIT_KEY,
    columns=(
        *col.declared("""
            log_date, job_id, run_id
            scheduled_gpu_hours (real [GPU h] >= 0): GPU-hours allocated on this log date
            """),
        *col.declared(
            "\n".join(
                f"{name}_gpu_hours (real [GPU h]{'' if name in MAY_BE_NEGATIVE else ' >= 0'}): {meaning}"
                for name, meaning in KNOWN_PARTS.items()
            )
        ),
        *col.declared("""
            unknown_gpu_hours (real [GPU h]): rest of the GPU-hours, 0 if only rounding is left; negative, by
                1 % at most, if events show more than was allocated
            ettr (fraction): effective training time ratio: recorded time of kept steps (productive +
                straggling + late_start) over scheduled_gpu_hours; a lower bound, because unknown time counts
                as not effective. The ratio of several units is the ratio of both sums over their rows
            productive_fraction (fraction): productive_gpu_hours over scheduled_gpu_hours
            lost_to_causes_gpu_hours (gpu_hours >= 0): part of productive, straggling and late-start hours
                that is lost: lost_fraction of job_causes summed over causes, unexplained included; null: the
                unit has no causes. It may include productive hours, because a slow worker lengthens the
                usual, and so the ideal, time
            steps_kept (real [steps] >= 0): steps done on this day that no restart repeats, by the events
            steps_lost (real [steps] >= 0): steps done on this day that were repeated, or have to be repeated
            outage_s (seconds >= 0): time from failures to the next starts, by the events, even beyond the
                GPU-hours
            queued_gpu_hours (gpu_hours >= 0): GPU-hours for which the run waited before its starts on this
                day, from submission to start, in full; not part of scheduled_gpu_hours; null: a start has no
                submission event
            starts (count): starts and restarts
            failures (count): failures
            checkpoints (count): checkpoints
            contradictions (count): events that repeat the previous event, and are ignored, or that cannot
                follow it, so that the time around them is unknown; one more if the events show more than the
                GPU-hours
            """),
    ),
    expectations=col.rules(f"""
        -- the parts sum to scheduled_gpu_hours
        parts_add_up: {col.agree(_SUM, "scheduled_gpu_hours", col.SAME_SUM)}
        -- the parts of job_time exceed the GPU-hours by 1 % at most
        unknown_is_hardly_negative: unknown_gpu_hours >= -0.010001 * scheduled_gpu_hours
        -- ettr = (productive + straggling + late starts) / scheduled
        ettr_of_parts:
            {col.agree("ettr * scheduled_gpu_hours", _EFFECTIVE, col.SAME_SUM)}
        -- productive_fraction = productive / scheduled
        productive_fraction_of_parts:
            {col.agree("productive_fraction * scheduled_gpu_hours", "productive_gpu_hours", col.SAME_SUM)}
        """),
)
