"""Choose the workers that a timeline shows: those that lose most, and their neighbours."""

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import numpy as np

from udfs.timeline.timelines import IDEAL, REPLAYED, StepTimelines

Worker: TypeAlias = tuple[int, int]
"""(dp_rank, pp_rank)."""

CULPRITS: Final = 3
"""Workers that are shown for what they lose; each brings up to three beside it."""


def lost_s(step: StepTimelines) -> dict[Worker, float]:
    """Time that each worker's own ops exceed the ideal in this step, without waiting. [s]"""
    excess_s = np.clip(step.duration_s[REPLAYED] - step.duration_s[IDEAL], 0.0, None)
    workers = np.stack([step.facts[name].ravel() for name in ("dp_rank", "pp_rank")])
    cells, of_op = np.unique(workers, axis=1, return_inverse=True)
    sums_s = np.bincount(of_op.reshape(-1), excess_s.ravel())
    return {(dp, pp): lost for (dp, pp), lost in zip(cells.T.tolist(), sums_s.tolist(), strict=True)}


def culprits_and_neighbours(step: StepTimelines) -> list[Worker]:
    """Workers that lose most in this step, each followed by those to compare it with.

    Those are the worker of its stage that loses least, and the stages before and after it in its replica.
    """
    lost = lost_s(step)
    found: dict[Worker, None] = {}
    for dp, pp in _by_loss(lost, lost)[:CULPRITS]:
        peer = _by_loss(lost, (each for each in lost if each[1] == pp))[-1]
        found |= dict.fromkeys(each for each in ((dp, pp), peer, (dp, pp - 1), (dp, pp + 1)) if each in lost)
    return list(found)


def of_stage(step: StepTimelines, pp_rank: int) -> list[Worker]:
    """Workers of a stage, those that lose most first; empty if the stage does not exist."""
    lost = lost_s(step)
    return _by_loss(lost, (each for each in lost if each[1] == pp_rank))


def of_rank(step: StepTimelines, rank: int) -> Worker | None:
    """Worker whose replayed rank this is; None if there is none."""
    places = np.argwhere(step.facts["rank"] == rank)
    if not len(places):
        return None
    dp_rank, pp_rank = (int(step.facts[name][tuple(places[0])]) for name in ("dp_rank", "pp_rank"))
    return dp_rank, pp_rank


def host_of(step: StepTimelines, worker: Worker) -> str | None:
    """Host of a worker; None if the log names none."""
    is_own = (step.facts["dp_rank"] == worker[0]) & (step.facts["pp_rank"] == worker[1])
    hosts: Sequence[int] = step.facts["host"][is_own].tolist()
    return None if not hosts or hosts[0] < 0 else step.hosts[hosts[0]]


def _by_loss(lost: dict[Worker, float], workers: Iterable[Worker]) -> list[Worker]:
    return sorted(workers, key=lambda each: (-lost[each], each))
