"""Compare a unit with other runs, to find stages or transfers that take longer in the unit.

If a stage is one worker, or lies on one host, its log looks the same whether the host is slow or the work is
heavy. Other runs of the same model decide: the work moves with the stage, and slowness stays with the host.
"""

from collections.abc import Collection, Mapping, Sequence
from statistics import median_low
from typing import Any, Final, NamedTuple

from schemas.vocabulary import OP_TYPES
from udfs.kernel.op_type import AVERAGED, COMPUTE
from udfs.op_lists import GROUPS

LEAST_SLOWER: Final = 1.08
"""A stage that takes this many times as long as in other runs is slow; healthy hosts differ by 3 %."""

SAME_WORK: Final = 1.05
"""If computes of two runs differ by less than this factor, slower transfers are due to the network, not
work."""

SAME_TRAFFIC: Final = 1.25
"""If transfers of two runs differ by less than this factor, slower computes are due to hosts, not to work."""

SLOW_LINK: Final = 1.8
"""Transfers that take this many times as long as in other runs are slow, as in a job (diagnosis, section
2)."""

SAME_OPS: Final = 0.02
"""Share by which ops per step may differ between compared runs: less than one microbatch."""

LEAST_TRANSFER_S: Final = 1e-4
"""Shorter transfers are mostly the cost of the call, and scatter."""

_TRAFFIC: Final = {group for code, group in enumerate(GROUPS) if code not in AVERAGED}


class Stage(NamedTuple):
    """One stage's usual compute time per step [s], and its hosts; no hosts if one of them is unknown."""

    compute_s: float
    hosts: frozenset[str]


class Run(NamedTuple):
    """Figures of one unit that comparisons with other units use.

    ops_per_step : recorded ops over steps.
    ideal_step_s : step time with every duration ideal. [s]
    stages       : by pp_rank.
    op_types_s   : ideal duration of an op, by type. [s]
    """

    ops_per_step: float
    ideal_step_s: float
    stages: Sequence[Stage]
    op_types_s: Mapping[str, float]

    @property
    def hosts(self) -> frozenset[str]:
        """Hosts of all stages; empty if the hosts of any stage are unknown."""
        if not all(stage.hosts for stage in self.stages):
            return frozenset()
        return frozenset().union(*(stage.hosts for stage in self.stages))


class SlowHost(NamedTuple):
    """A host that was slow in other jobs: in how many jobs, and by how much (0.3: takes 30 % longer)."""

    jobs: int
    effect: float


class SlowStages(NamedTuple):
    """Stages that are slow according to other runs.

    factors : pp_rank of each slow stage -> its time over that in other runs.
    saved_s : time by which a step would be shorter if these stages were not slow. [s]
    kept    : part of the imbalance between stages that would then remain.
    largest : the largest factor of any stage, slow or not.
    runs, jobs : number of compared runs of the model, and of other jobs on the hosts.
    """

    factors: Mapping[int, float]
    saved_s: float
    kept: float
    largest: float
    runs: int
    jobs: int


class SlowTransfers(NamedTuple):
    """Transfers that are slow according to other runs.

    factor  : time of a transfer over that in other runs; the largest of all op types.
    usual_s : slow op types -> time of an op in other runs. [s]
    runs    : number of compared runs.
    """

    factor: float
    usual_s: Mapping[str, float]
    runs: int


def kind_of(row: Mapping[str, Any], names: Sequence[str]) -> tuple[Any, ...]:
    """Return a unit's model (job_id if it states no model), and the columns `names` of job_baseline."""
    return (row["job_id"] if row["model"] is None else row["model"], *(row[name] for name in names))


def comparable(unit: Run, runs: Sequence[Run]) -> list[Run]:
    """Select runs with the same number of stages and ops per step."""
    return [
        run
        for run in runs
        if len(run.stages) == len(unit.stages) and abs(run.ops_per_step / unit.ops_per_step - 1.0) <= SAME_OPS
    ]


def slow_stages(
    unit: Run, runs: Sequence[Run], slow_hosts: Mapping[str, SlowHost], minimum_runs: int
) -> SlowStages | None:
    """Find stages that are slow because of their hosts; None if other runs do not decide it.

    runs : comparable runs of the same model. Runs in which a stage has no compute time are left out.
    """
    runs = [run for run in runs if _computes(run)]
    if not _computes(unit):
        return None
    elsewhere = [run for run in runs if run.hosts and unit.hosts and not run.hosts & unit.hosts]
    if len(unit.hosts) == 1 and len(elsewhere) >= minimum_runs:
        factors = [_ratio(unit, elsewhere, number) for number in range(len(unit.stages))]
        traffic = _ratios(unit, elsewhere, _TRAFFIC, LEAST_TRANSFER_S).values()
        # On one host, all stages are slower than on other hosts, but transfers are not.
        if min(factors) >= LEAST_SLOWER and max(traffic, default=1.0) <= SAME_TRAFFIC:
            saved_s = unit.ideal_step_s - median_low([run.ideal_step_s for run in elsewhere])
            return SlowStages(dict(enumerate(factors)), saved_s, 1.0, max(factors), len(elsewhere), 0)
    found = _against_runs(unit, runs, minimum_runs)
    return found if found is not None else _against_hosts(unit, slow_hosts)


def slow_transfers(unit: Run, runs: Sequence[Run], minimum_runs: int) -> SlowTransfers | None:
    """Find transfers slower than in other runs of the same work; None if other runs do not decide it."""
    if len(runs) < minimum_runs or unit.ideal_step_s <= 0.0:
        return None
    work = max(_ratios(unit, runs, [OP_TYPES[code] for code in COMPUTE], 0.0).values(), default=1.0)
    traffic = _ratios(unit, runs, _TRAFFIC, LEAST_TRANSFER_S)
    if not traffic or not 1 / SAME_WORK <= work <= SAME_WORK:
        return None
    slow = {name: factor for name, factor in traffic.items() if factor >= SLOW_LINK}
    usual_s = {name: unit.op_types_s[name] / factor for name, factor in slow.items()}
    return SlowTransfers(max(traffic.values()), usual_s, len(runs))


def _against_runs(unit: Run, runs: Sequence[Run], minimum_runs: int) -> SlowStages | None:
    """Find stages slower than in other runs; if all stages are, only runs on other hosts count."""
    if len(runs) < minimum_runs:
        return None
    factors, base, on_others = [], [], True
    for number, stage in enumerate(unit.stages):
        others = [run for run in runs if stage.hosts and not stage.hosts & run.stages[number].hosts]
        others = [run for run in others if run.stages[number].hosts]
        on_others &= len(others) >= minimum_runs
        chosen = others if len(others) >= minimum_runs else runs
        base.append(len(chosen))
        factors.append(_ratio(unit, chosen, number))
    # A factor that most stages share is more work. If it is below 1, hosts were slow in the other runs.
    common = max(median_low(factors), 1.0) if len(factors) > 1 else 1.0
    relative = {number: factor / common for number, factor in enumerate(factors)}
    slow = {
        number: factor
        for number, factor in relative.items()
        if factor >= LEAST_SLOWER and len(unit.stages) > 1 and len(unit.stages[number].hosts) == 1
    }
    if not slow and not (on_others and max(relative.values()) < LEAST_SLOWER):
        return None
    return _without(unit, slow, max(relative.values()), min(base), 0)


def _against_hosts(unit: Run, slow_hosts: Mapping[str, SlowHost]) -> SlowStages | None:
    """Find stages that are heavy because they run alone on a host that was slow in other jobs."""
    slow, jobs = {}, 0
    for number, stage in enumerate(unit.stages):
        others = [other for place, other in enumerate(unit.stages) if place != number]
        if len(stage.hosts) != 1 or not others or any(stage.hosts & other.hosts for other in others):
            continue
        known = slow_hosts.get(next(iter(stage.hosts)))
        heavier = stage.compute_s / median_low([other.compute_s for other in others])
        if known is not None and min(heavier, 1.0 + known.effect) >= LEAST_SLOWER:
            slow[number] = min(heavier, 1.0 + known.effect)
            jobs = max(jobs, known.jobs)
    return _without(unit, slow, max(slow.values()), 0, jobs) if slow else None


def _without(unit: Run, factors: Mapping[int, float], largest: float, runs: int, jobs: int) -> SlowStages:
    """Return the saving if slow stages ran as fast as in other runs; the slowest stage sets the pace."""
    as_is_s = [stage.compute_s for stage in unit.stages]
    fixed_s = [time_s / factors.get(number, 1.0) for number, time_s in enumerate(as_is_s)]
    uneven_s, left_s = (max(times) - sum(times) / len(times) for times in (as_is_s, fixed_s))
    kept = min(left_s / uneven_s, 1.0) if uneven_s > 0.0 else 1.0
    return SlowStages(factors, max(as_is_s) - max(fixed_s), kept, largest, runs, jobs)


def _computes(run: Run) -> bool:
    return all(stage.compute_s > 0.0 for stage in run.stages)


def _ratio(unit: Run, runs: Sequence[Run], number: int) -> float:
    return unit.stages[number].compute_s / median_low([run.stages[number].compute_s for run in runs])


def _ratios(unit: Run, runs: Sequence[Run], op_types: Collection[str], least_s: float) -> dict[str, float]:
    """Return each op type's duration relative to other runs, without types that one of the runs lacks."""
    found = {}
    for op_type, time_s in unit.op_types_s.items():
        others = [run.op_types_s.get(op_type, 0.0) for run in runs]
        if op_type in op_types and min(others) > least_s:
            found[op_type] = time_s / median_low(others)
    return found
