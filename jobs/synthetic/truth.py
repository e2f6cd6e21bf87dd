"""Ground truth of a job: the real cost of each cause and each mechanism."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from jobs.synthetic.conditions import Rows
from jobs.synthetic.simulation import LABELS, Simulation


@dataclass(frozen=True)
class Truth:
    """Fractions of step time saved: (T with - T without) / T with, T the mean actual step time.

    actual_step_s       : T with everything [s]
    time_saved_fraction : by cause, all of its mechanisms undone at once
    all_causes_fraction : all causes undone at once
    nuisances_fraction  : all nuisances undone at once, and no cause
    mechanisms          : of each its name, cause, parameters, own time_saved_fraction, culprits, and where it
                          really struck: `slowed_steps`, numbers of recorded steps, and `slowed_workers`,
                          [dp_rank, pp_rank], in which some op took longer or was delayed by it
    """

    actual_step_s: float
    time_saved_fraction: dict[str, float]
    all_causes_fraction: float
    nuisances_fraction: float
    mechanisms: list[dict[str, Any]]


def true_savings(simulation: Simulation) -> Truth:
    """Rerun the same job without each cause and each mechanism."""

    @cache
    def mean_us(without: frozenset[int], *, is_launch_free: bool) -> float:
        timeline = simulation.timeline(without, is_launch_free=is_launch_free)
        return float(simulation.step_us(timeline).mean())

    actual_us = mean_us(frozenset(), is_launch_free=False)

    def saved(without: frozenset[int], *, is_launch_free: bool = False) -> float:
        return (actual_us - mean_us(without, is_launch_free=is_launch_free)) / actual_us

    return Truth(
        actual_step_s=actual_us / 1e6,
        time_saved_fraction={
            cause: saved(simulation.places_of({cause}), is_launch_free=cause == "launch_delay")
            for cause in LABELS
        },
        all_causes_fraction=saved(simulation.places_of(LABELS), is_launch_free=True),
        nuisances_fraction=saved(simulation.places_of({None})),
        mechanisms=[
            {
                "mechanism": type(mechanism).__name__,
                "cause": mechanism.cause,
                "parameters": mechanism.parameters(),
                "time_saved_fraction": saved(frozenset({place})),
                "culprits": dict(mechanism.culprits(simulation.place)),
                **_struck(simulation, place),
            }
            for place, mechanism in enumerate(simulation.plan.mechanisms)
        ],
    )


def true_exposed_s(simulation: Simulation, rows: Rows) -> float:
    """Ground truth: mean step time minus that of a rerun with these ops at zero duration. [s]"""
    whole, without = (simulation.timeline(), simulation.timeline_in_no_time(rows))
    return float((simulation.step_us(whole) - simulation.step_us(without)).mean()) / 1e6


def _struck(simulation: Simulation, place: int) -> dict[str, Any]:
    """Steps and workers in which a mechanism slows any op."""
    slowed, numbers = simulation.slowed_by(place), simulation.plan.step_numbers
    return {
        "slowed_steps": [numbers[step] for step in np.flatnonzero(slowed.any(axis=(1, 2)))],
        "slowed_workers": np.argwhere(slowed.any(axis=0)).tolist(),
    }
