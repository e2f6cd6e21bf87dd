"""Side of a comparison: days of runs, with their step times and results."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any, Final, NamedTuple

import numpy as np

from schemas.unit import Unit
from schemas.vocabulary import CAUSES, Scope
from udfs.changes import MOST_BLOCKS
from udfs.kernel.arrays import Floats
from udfs.kernel.diagnosis.diagnose import LEAST_SAVED
from udfs.lost import lost_fractions
from udfs.noise import Noise, noise_of

Row = Mapping[str, Any]

MANY_DAYS: Final = 5
"""Fewest days for which noise is measured between days, because steps of one day resemble each other."""


class Day(NamedTuple):
    """One day of a run: its unit's step times and results.

    job        : the unit's row of job_slowdown.
    actual_s   : recorded step times. [s]
    replayed_s : replayed times of the same steps; None if the unit was not replayed. [s]
    causes, exposed : the unit's rows of job_causes and exposed_communication.
    """

    unit: Unit
    job: Row
    actual_s: Floats
    replayed_s: Floats | None = None
    causes: Sequence[Row] = ()
    exposed: Sequence[Row] = ()


@dataclass(frozen=True)
class Side:
    """One side of a comparison: at least one day, each with at least one step."""

    name: str
    days: Sequence[Day]

    @property
    def steps(self) -> int:
        """Return the number of recorded steps."""
        return sum(len(day.actual_s) for day in self.days)

    @property
    def is_by_day(self) -> bool:
        """Return whether noise is measured between days instead of between blocks of steps."""
        return len(self.days) >= MANY_DAYS

    @property
    def is_replayed(self) -> bool:
        """Return whether all days were replayed."""
        return all(day.replayed_s is not None for day in self.days)

    @property
    def step_s(self) -> float:
        """Return the mean recorded step time. [s]"""
        return self.mean([float(day.actual_s.mean()) for day in self.days])

    @property
    def replayed_s(self) -> float:
        """Return the mean replayed step time, if the side was replayed. [s]"""
        return self.mean([float(np.mean(day.replayed_s)) for day in self.days if day.replayed_s is not None])

    def mean(self, of_days: Sequence[float]) -> float:
        """Return the mean over all steps, given each day's mean over its steps."""
        counts = [len(day.actual_s) for day in self.days]
        return fsum(count * each for count, each in zip(counts, of_days, strict=True)) / sum(counts)

    def named(self) -> set[str]:
        """Return the causes found on some day, or with at least LEAST_SAVED of a day's time attributed."""
        return {
            row["cause"]
            for day in self.days
            for row in day.causes
            if row["is_cause"] or row["attributed_fraction"] >= LEAST_SAVED
        }

    def lost_s(self, named: Collection[str]) -> dict[str, float]:
        """Return the time lost per step to each cause; causes not in `named` count as unexplained. [s]"""
        by_day = []
        for day in self.days:
            rows = [{**row, "is_cause": row["cause"] in named} for row in day.causes]
            by_day.append(dict(zip((row["cause"] for row in rows), lost_fractions(rows), strict=True)))
        names = [cause for cause in CAUSES if any(cause in lost for lost in by_day)]
        days = list(zip(self.days, by_day, strict=True))
        return {
            cause: self.mean([lost.get(cause, 0.0) * float(day.actual_s.mean()) for day, lost in days])
            for cause in names
        }

    def exposed_s(self) -> dict[str, float]:
        """Return exposed communication per step, by op type, and of all together as ALL_OP_TYPES. [s]"""
        by_day = [
            {row["op_type"]: row["exposed_s"] for row in day.exposed if row["scope"] != Scope.STAGE}
            for day in self.days
        ]
        names = dict.fromkeys(name for of_day in by_day for name in of_day)
        return {name: self.mean([of_day.get(name, 0.0) for of_day in by_day]) for name in names}

    def noise(self) -> Noise | None:
        """Return the noise of the mean step time without its lasting changes; None with too few steps. [s]"""
        if self.is_by_day:
            of_days = np.array([day.actual_s.mean() for day in self.days])
            return noise_of(of_days, len(of_days))
        steps_s = np.concatenate([day.actual_s for day in self.days])
        return noise_of(steps_s, min(MOST_BLOCKS, len(steps_s) // 2))
