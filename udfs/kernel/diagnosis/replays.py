"""Replayed step times of one job with causes fixed, each set of fixes once."""

from collections.abc import Sequence

import numpy as np

from udfs.kernel.arrays import Floats
from udfs.kernel.diagnosis.block_times import Tensor
from udfs.kernel.diagnosis.fixes import (
    Causes,
    Fixable,
    Fixed,
    Scenario,
    Split,
    may_end,
    step_times,
)
from udfs.kernel.diagnosis.found import Found
from udfs.kernel.diagnosis.savings import NOTHING
from udfs.kernel.diagnosis.works import Works, works


class Replays:
    """Replays of one job with sets of causes fixed.

    Causes of which nothing was found are never replayed: their fixes change nothing. What was replayed once
    is kept, because mitigations ask again for what the diagnosis has replayed.

    found : what was measured in the job.
    work  : what `works` gives for its factors, where it is known already.
    """

    def __init__(self, found: Found, work: Works | None = None) -> None:
        self.found, factors = found, found.factors
        self.work = works(factors) if work is None and factors is not None else work
        self._present = found.present
        computes = found.computes.blocks if found.computes is not None else [None] * len(found.blocks)
        slow = [dict(zip(found.slow, each, strict=True)) for each in zip(*found.slow.values(), strict=True)]
        parts = (found.blocks, computes, slow, found.own_times, found.late)
        self._fixable = [
            Fixable(times, of_computes, of_block, own, late, may_end(times))
            for times, of_computes, of_block, own, late in zip(*parts, strict=True)
        ]
        self._known: dict[Causes, Floats] = {}

    def times_s(self, fixes: Sequence[Fixed]) -> dict[Fixed, Floats]:
        """Replayed step times for each given set of causes fixed, after their mean. [s]"""
        left = {fixed: self._present - fixed for fixed in fixes}
        unknown = [causes for causes in dict.fromkeys(left.values()) if causes not in self._known]
        if unknown:
            split = self._split(self.work)
            replayed_s = self._replayed([Scenario(split, causes) for causes in unknown])
            self._known.update(zip(unknown, replayed_s, strict=True))
        return {fixed: self._known[causes] for fixed, causes in left.items()}

    def mean_s(self, fixed: Fixed = NOTHING) -> float:
        """Mean replayed step time with causes fixed. [s]"""
        return float(self.times_s([fixed])[fixed][0])

    def of_works_s(self, works_s: Sequence[Tensor]) -> list[float]:
        """Mean replayed step time for each alternative work of the computes, with nothing fixed. [s]

        works_s : durations of computes on usual workers. [s]
        """
        works = [Works(each_s, each_s, each_s, each_s) for each_s in works_s]
        splits = [self._split(work) for work in works]
        found: list[float] = self._replayed([Scenario(each, self._present) for each in splits])[:, 0].tolist()
        return found

    def _split(self, work: Works | None) -> Split | None:
        factors = self.found.factors
        return None if factors is None or work is None else Split(factors, work, self.found.rest)

    def _replayed(self, scenarios: Sequence[Scenario]) -> Floats:
        """Step times of each scenario after their mean; shape (scenario, 1 + step). [s]"""
        of_blocks_s = [step_times(block, scenarios) for block in self._fixable]
        mean_s = sum(each.sum(axis=1) for each in of_blocks_s) / self.found.steps
        return np.column_stack([mean_s, *of_blocks_s])
