"""The table run_effective_time: what the GPU-hours of a run were spent on."""

from typing import Final

from schemas import columns as col
from schemas.table import Table
from schemas.vocabulary import UNIT_KEY

KNOWN_PARTS: Final = {
    "productive": "training at ideal speed: kept steps, at the ideal step time",
    "straggling": "how much longer kept steps took than at ideal speed, by replay (T - T_ideal); negative "
    "where the ideal takes longer",
    "late_start": "how much longer kept steps took than their replay (T_actual - T): late starts; negative "
    "where the replay takes longer",
    "lost_work": "steps that were repeated after a restart, or have to be repeated",
    "outage": "time from a failure to the next start, as far as the manifest's GPU-hours leave room for it",
    "startup": "GPU-hours from a start to the first step",
    "checkpoint": "GPU-hours in which training stood still to save a checkpoint",
    "evaluation": "GPU-hours in which training stood still for an evaluation",
    "data_loading": "GPU-hours in which training stood still to load data, between steps",
}
"""Parts of a run's time that its events show, by column prefix."""
MAY_BE_NEGATIVE: Final = ("straggling", "late_start")
_SUM: Final = " + ".join(f"{name}_gpu_hours" for name in (*KNOWN_PARTS, "unknown"))

_EFFECTIVE: Final = "productive_gpu_hours + straggling_gpu_hours + late_start_gpu_hours"

JOB_TIME: Final = Table(
    "job_time",
    "One row per replayed unit that has events and GPU-hours: how these were spent. The parts add up; "
    "unknown time is unknown, never productive. A unit without a row is wholly unknown.",
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
            unknown_gpu_hours (real [GPU h]): rest of the GPU-hours, 0 where only rounding is left; negative,
                by 1 % at most, where events show more than was allocated
            ettr (fraction): effective training time ratio: kept steps, stragglers and late starts included,
                over scheduled_gpu_hours; a lower bound, as unknown time counts as not effective. Over several
                units: the sums of both over rows of this table
            productive_fraction (fraction): productive_gpu_hours over scheduled_gpu_hours
            lost_to_causes_gpu_hours (gpu_hours >= 0): lost part of productive, straggling and late-start
                hours, unexplained included, as lost_fraction of job_causes sums it; null: no causes were
                looked for. A slow worker is part of the usual time, and so of ideal speed: here it counts as
                lost
            steps_kept (real [steps] >= 0): steps done on this day that stayed, by marks in the events
            steps_lost (real [steps] >= 0): steps done on this day that were repeated, or have to be repeated
            outage_s (seconds >= 0): time from failures to the next starts, by the events alone
            queued_gpu_hours (gpu_hours >= 0): GPU-hours for which the run waited before its starts on this
                day, from submission to start, in full; not part of scheduled_gpu_hours; null: a start has no
                submission event
            starts (count): starts and restarts
            failures (count): failures
            checkpoints (count): checkpoints
            contradictions (count): events that repeat the one before, which changes nothing, or that cannot
                be true after it, and one more if the events show more than the GPU-hours: time around them is
                unknown
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
