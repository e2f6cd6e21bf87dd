"""Compute what each fault truly costs, and whether the log of one day can show the fault."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tests.evaluation.shapes.draw import Job
from tests.evaluation.shapes.faults import BOTH, COLLECTIVE, LAYERS, Fault
from tests.evaluation.shapes.layout import Floats, Layout
from tests.evaluation.shapes.recorded import Recorded, step_times
from tests.evaluation.shapes.rows import manifest, rank_steps
from tests.evaluation.shapes.timeline import Pipeline
from tests.evaluation.shapes.times import changed

LEAST_SAVED: Final = 0.025
"""A fault whose fix saves less than this share of the step need not be named."""
TOO_LITTLE: Final = "saves too little"
NO_CAUSE_FITS: Final = "no cause fits"
VISIBLE: Final = 0.01
"""In a step in which a fault lengthens ops by less than this share, the fault's workers count as healthy."""
CHANCES: Final = 4
"""Slow replicas are distinguished from uneven data if their excess is at least this many standard errors."""


@dataclass(frozen=True)
class Truth:
    """Costs of a job's faults as fractions of the step time.

    beside_fraction : by fault, the saving if only this fault is fixed; share of the step with all faults.
    alone_fraction  : by fault, the saving if the job has no other fault; share of the step with this fault.
    lost_fraction   : saving if all faults are fixed; share of the step with all faults.
    undecidable     : by fault, why it need not be named; empty if it must be named.
    """

    beside_fraction: tuple[float, ...]
    alone_fraction: tuple[float, ...]
    lost_fraction: float
    undecidable: tuple[str, ...]


def recorded(job: Job, faults: tuple[Fault, ...]) -> list[Recorded]:
    """Simulate a job with only some of its faults."""
    return Pipeline(job.layout, changed(job.times, [fault.change for fault in faults])).run()


def unit(job: Job) -> tuple[pa.Table, dict[str, object]]:
    """Return rows of rank_steps and the manifest of a job with all its faults."""
    return rank_steps(job.layout, recorded(job, job.faults)), manifest(job.layout, job.seed)


def truth(job: Job) -> Truth:
    """Compare simulations of equal draws: with all faults, without each, with each alone, and without any."""

    def step_s(faults: tuple[Fault, ...]) -> float:
        return float(step_times(recorded(job, faults)).mean())

    with_all_s, healthy_s = step_s(job.faults), step_s(())
    beside, alone = [], []
    for number, fault in enumerate(job.faults):
        others = job.faults[:number] + job.faults[number + 1 :]
        beside.append(1 - step_s(others) / with_all_s if others else 1 - healthy_s / with_all_s)
        alone.append(1 - healthy_s / step_s((fault,)))
    undecidable = tuple(
        TOO_LITTLE if saved < LEAST_SAVED else why_undecidable(job.layout, fault, job.faults)
        for fault, saved in zip(job.faults, beside, strict=True)
    )
    return Truth(tuple(beside), tuple(alone), 1 - healthy_s / with_all_s, undecidable)


def why_undecidable(layout: Layout, fault: Fault, faults: tuple[Fault, ...]) -> str:
    """Return why one day's log cannot show a fault; empty if it can.

    The docstring of the package tests.evaluation.shapes states the rules.
    """
    if fault.cause is None:
        return NO_CAUSE_FITS
    if fault.reach == LAYERS:
        return _why_no_layers(layout, faults)
    if fault.cause == "communication":
        return _why_no_link(layout, fault)
    if fault.cause == "launch_delay":
        few = 2 * len(fault.workers) <= layout.pp * layout.dp
        return "" if few or _was_healthy(layout, _excess(fault)) else "most workers are late, always"
    return _why_no_worker(layout, fault, faults) if fault.cause in ("slow_worker", "data_loading") else ""


def _why_no_worker(layout: Layout, fault: Fault, faults: tuple[Fault, ...]) -> str:
    if _is_slow_stage(layout, fault, faults):
        return "most of a stage is slow, always"
    if _is_all_slow(layout, fault, faults):
        return "the whole job is slow"
    return "uneven data hide it" if _is_like_data(layout, fault, faults) else ""


def _why_no_layers(layout: Layout, faults: tuple[Fault, ...]) -> str:
    if layout.dp == 1:
        return "one replica"
    if any(_holds_exactly(layout, stage) for stage in range(layout.pp)):
        return "a host holds a stage"
    slow = [each for each in faults if each.cause == "slow_worker"]
    return "a stage is slow always" if any(_is_slow_stage(layout, each, faults) for each in slow) else ""


def _holds_exactly(layout: Layout, stage: int) -> bool:
    of_stage = {int(host) for host in layout.host[stage]}
    return len(of_stage) == 1 and len(layout.workers_of_host(of_stage.pop())) == layout.dp


def _is_slow_stage(layout: Layout, fault: Fault, faults: tuple[Fault, ...]) -> bool:
    """Return whether more than half of the replicas of a stage are slow in nearly all steps."""
    is_most = 2 * _slow(layout, fault, faults).sum(axis=2) > layout.dp
    return any(not _was_healthy(layout, is_most[stage]) for stage, _ in fault.workers)


def _is_all_slow(layout: Layout, fault: Fault, faults: tuple[Fault, ...]) -> bool:
    """Return whether every worker of the job is slow in most of the fault's steps."""
    is_all = _slow(layout, fault, faults).all(axis=(0, 2))
    is_there = _excess(fault) > VISIBLE
    return bool(2 * np.count_nonzero(is_all & is_there) > np.count_nonzero(is_there))


def _is_like_data(layout: Layout, fault: Fault, faults: tuple[Fault, ...]) -> bool:
    """Return whether slow replicas stand out by no more than uneven data may do by chance."""
    replicas = {dp_rank for _, dp_rank in fault.workers}
    if fault.direction != BOTH or len(fault.workers) < layout.pp * len(replicas):
        return False
    excess = _excess(fault)
    for data in (each for each in faults if each.cause == "data_imbalance"):
        by_chance = data.size / np.sqrt(layout.microbatches * np.count_nonzero(excess))
        if (data.strength * excess).any() and excess[excess > 0].mean() < CHANCES * by_chance:
            return True
    return False


def _slow(layout: Layout, fault: Fault, faults: tuple[Fault, ...]) -> npt.NDArray[np.bool_]:
    """Return who is slow by a fault with cause and ops of `fault`; mask (stage, step, dp_rank)."""
    slow = np.zeros((layout.pp, *layout.lanes), bool)
    for each in faults:
        if each.cause == fault.cause and same_ops(each, fault):
            for stage, dp_rank in each.workers:
                slow[stage, :, dp_rank] |= _excess(each) > VISIBLE
    return slow


def same_ops(one: Fault, other: Fault) -> bool:
    """Return whether two faults slow some of the same ops."""
    computes = (BOTH, "forward", "backward")
    if one.direction in computes and other.direction in computes:
        return BOTH in (one.direction, other.direction) or one.direction == other.direction
    return one.direction == other.direction


def _excess(fault: Fault) -> Floats:
    """Return the share by which a fault lengthens its ops in each step, shape (step,).

    If `size` is at most 1, as of short pauses, return the strength instead.
    """
    return np.asarray((fault.size - 1) * fault.strength if fault.size > 1 else fault.strength)


def _was_healthy(layout: Layout, is_slow: Floats) -> bool:
    """Return whether enough steps are free of the fault: at least a sixth of them, and at least three."""
    healthy = np.count_nonzero(np.asarray(is_slow) <= VISIBLE)
    return bool(healthy >= max(3, layout.steps // 6))


def _why_no_link(layout: Layout, fault: Fault) -> str:
    if _was_healthy(layout, _excess(fault)):
        return ""
    if fault.reach == COLLECTIVE:
        return "a stage's collective is slow, always"
    links = layout.pp * layout.dp if layout.vpp > 1 else (layout.pp - 1) * layout.dp
    slow = len({dp_rank for _, dp_rank in fault.workers})
    return "" if 2 * slow <= links and links > 1 else "most links are slow, always"


def names_not_wrong(layout: Layout, fault: Fault, faults: tuple[Fault, ...]) -> frozenset[str]:
    """Return the causes that may be named for a fault: its own, and others that would give the same log."""
    names = fault.also | ({fault.cause} if fault.cause else frozenset())
    is_compute = fault.cause == "slow_worker" and fault.direction in (BOTH, "forward", "backward")
    stages = {stage for stage, _ in fault.workers}
    is_stage = len(stages) == 1 and layout.dp > 1 and not _holds_exactly(layout, min(stages))
    is_like_work = is_compute and is_stage and _is_slow_stage(layout, fault, faults)
    return names | {"stage_imbalance"} if is_like_work else names
