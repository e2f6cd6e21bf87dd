"""Two months of results with known headline figures, which equal the paper's if the paper states them.

Of 400 runs 200 are analysed. Of these, 85 straggle (42.5 %), and 10.4 % of their GPU-hours are wasted. Runs
alternate between a day in January and a day in February.
"""

from datetime import date
from typing import Any, Final

Row = dict[str, Any]

JANUARY: Final = date(2026, 1, 12)
FEBRUARY: Final = date(2026, 2, 9)
TEAMS: Final = ("speech", "vision")
LEFT_OUT: Final = {
    "no_manifest": 10,
    "bad_layout": 5,
    "too_many_restarts": 52,
    "no_ops": 3,
    "corrupt_trace": 10,
    "missing_workers": 40,
    "too_few_steps": 50,
    "high_discrepancy": 30,
}
"""Number of runs that are not analysed, by status."""
ANALYSED: Final = 200
STRAGGLING: Final = 85
GPU_HOURS: Final = 100.0
"""GPU-hours of each analysed run; each other run has half as many."""
LITTLE: Final = (0.104 * ANALYSED - 20 * 0.3 - 65 * 0.16) / (ANALYSED - STRAGGLING)
"""Waste of each run that does not straggle, chosen so that all analysed runs together waste 10.4 %."""
STEP_RATIOS: Final = (0.98, 0.99, 1.0, 1.0, 1.0, 1.0, 1.0, 1.01, 1.02, 1.06)
"""Slowdowns of the ten steps of every straggling run, divided by the run's slowdown."""


def waste_of(number: int) -> float:
    """Return the waste of a run by its number: 0.3 for the first 20, 0.16 for the next 65, else LITTLE."""
    return 0.3 if number < 20 else 0.16 if number < STRAGGLING else LITTLE


def day_of(number: int) -> date:
    """Return the day of a run: in January for even numbers, else in February."""
    return FEBRUARY if number % 2 else JANUARY


def job_slowdown() -> list[Row]:
    """Rows of job_slowdown with one day of each run."""
    rows = [_analysed(number) for number in range(ANALYSED)]
    left_out = [status for status, count in LEFT_OUT.items() for _ in range(count)]
    return rows + [_left_out(number, status) for number, status in enumerate(left_out)]


def jobs() -> list[Row]:
    """Rows of jobs for the analysed runs; some of these rows state a team or a pipeline."""
    return [
        {
            "log_date": day_of(number),
            "job_id": f"a{number}",
            "team": TEAMS[number % 4 // 2],
            "pp_size": 1 if number % 5 == 0 else 4,
        }
        for number in range(ANALYSED)
    ]


def steps() -> list[Row]:
    """Rows of step_slowdown: ten steps of each straggling run."""
    return [
        {
            "log_date": day_of(number),
            "job_id": f"a{number}",
            "step": step,
            "slowdown": ratio / (1 - waste_of(number)),
        }
        for number in range(STRAGGLING)
        for step, ratio in enumerate(STEP_RATIOS)
    ]


def op_types() -> list[Row]:
    """Rows of op_type_slowdown, in which computes cause half of a run's waste, and communication none."""
    waste = {"forward-compute": 0.5, "grads-reduce-scatter": 0.0}
    return [
        {
            "log_date": day_of(number),
            "job_id": f"a{number}",
            "op_type": op_type,
            "waste_fraction": part * waste_of(number),
            "slowdown": 1 / (1 - part * waste_of(number)),
        }
        for number in range(ANALYSED)
        for op_type, part in waste.items()
    ]


def _analysed(number: int) -> Row:
    """Return the row of an analysed run, whose figures depend on its number."""
    waste = waste_of(number)
    return {
        "log_date": day_of(number),
        "job_id": f"a{number}",
        **_times(10.0 / (1 - waste), 10.0),
        "slow_worker_share": 0.9 if number in {0, 1, ANALYSED - 1} else 0.5,
        "last_stage_share": 0.5 if number % 5 and number < 97 else 0.49,
        "forward_backward_correlation": 0.9 if 20 <= number < 63 else 0.89,
        "gpu_hours": GPU_HOURS,
        "wasted_gpu_hours": GPU_HOURS * waste,
        "world_size": 256 if number < STRAGGLING else 128,
        "discrepancy": 0.01 * (number % 5),
    }


def _left_out(number: int, status: str) -> Row:
    """Return a run with a status other than analysed."""
    is_replayed = status in {"too_few_steps", "high_discrepancy"}
    times = _times(50.0, 10.0) | {"wasted_gpu_hours": GPU_HOURS / 2 * 0.8, "discrepancy": 0.5}
    return {
        "log_date": day_of(number),
        "job_id": f"b{number}",
        "status": status,
        "gpu_hours": GPU_HOURS / 2,
        **(times if is_replayed else dict.fromkeys(times)),
    }


def _times(simulated_s: float, ideal_s: float) -> Row:
    """Return the columns of a unit that follow from its replayed and its ideal step time."""
    return {
        "slowdown": simulated_s / ideal_s,
        "waste_fraction": 1 - ideal_s / simulated_s,
        "simulated_total_s": simulated_s,
        "ideal_total_s": ideal_s,
        "actual_total_s": simulated_s,
    }
