"""Each conclusion from other runs is drawn if there is evidence for it, and not without the evidence."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import pytest

from udfs.revise.history import Run, SlowHost, Stage, comparable, slow_stages, slow_transfers

TRANSFERS = {"forward-compute": 0.1, "backward-compute": 0.2, "forward-pp-comm": 0.002}


def run(
    compute_s: Sequence[float] = (1.0, 1.0, 1.0, 1.0),
    hosts: str = "abcd",
    ideal_step_s: float = 2.0,
    **op_types_s: float,
) -> Run:
    """Return a run whose stage p is on the host of the p-th letter; with an empty text, hosts are unknown."""
    places = [frozenset(host) for host in hosts] or [frozenset[str]()] * len(compute_s)
    stages = [Stage(time_s, on) for time_s, on in zip(compute_s, places, strict=True)]
    named = {name.replace("_", "-"): time_s for name, time_s in op_types_s.items()}
    return Run(100.0, ideal_step_s, stages, TRANSFERS | named)


ELSEWHERE = [run(hosts="efgh"), run(hosts="ijkl")]


HEAVY = [1.0, 1.0, 1.0, 1.5]
FAST = [1.0, 1.0]


class Case(NamedTuple):
    """A unit, other runs, and the stages that the other runs show to be slow; None if they show nothing."""

    unit: Run
    runs: list[Run]
    slow: dict[int, float] | None
    saved_s: float = 0.0
    kept: float = 1.0
    slow_hosts: Mapping[str, SlowHost] = MappingProxyType({})


CASES = {
    "others run the stage faster": Case(run([1.0, 1.5, 1.0, 1.0]), ELSEWHERE, {1: 1.5}, 0.5, 0.0),
    "as heavy on other hosts": Case(run(HEAVY), [run(HEAVY, "efgh"), run(HEAVY, "ijkl")], {}),
    "as heavy on the same hosts": Case(run(HEAVY), [run(HEAVY), run(HEAVY)], None),
    "as heavy, on hosts not known": Case(run(HEAVY, ""), [run(HEAVY, "efgh"), run(HEAVY, "ijkl")], None),
    "a host that became slow": Case(run([1.0, 1.0, 1.4, 1.0]), [run(), run()], {2: 1.4}, 0.4, 0.0),
    "one run is not a history": Case(run([1.0, 1.5, 1.0, 1.0]), ELSEWHERE[:1], None),
    "more work for all stages": Case(run([1.3] * 4), ELSEWHERE, {}),
    "a host that was slow then": Case(run(FAST, "ab"), [run([1.0, 1.5], each) for each in ("ef", "gh")], {}),
    "heavy and slow: the heavy part remains": Case(
        run([1.0, 3.0], "ab"), [run([1.0, 2.0], each) for each in ("ef", "gh")], {1: 1.5}, 1.0, 0.5
    ),
    "heavy on a host that other jobs found slow": Case(
        run([1.0, 1.0, 1.5, 1.0]), [], {2: 1.25}, 0.3, 0.4, {"c": SlowHost(3, 0.25)}
    ),
    "a slow host of two stages": Case(
        run([1.0, 1.0, 1.5, 1.0], "abac"), [], None, slow_hosts={"a": SlowHost(3, 0.25)}
    ),
    "a slow host of another stage": Case(
        run([1.0, 1.0, 1.5, 1.0]), [], None, slow_hosts={"d": SlowHost(3, 0.25)}
    ),
    "a whole job on one slow host": Case(
        run([1.4, 1.4], "aa", 2.8), [run(FAST, "ee"), run(FAST, "ff")], {0: 1.4, 1: 1.4}, 0.8
    ),
    "a whole job with slower transfers too": Case(
        run([1.4, 1.4], "aa", 2.8, forward_pp_comm=0.003), [run(FAST, "ef")] * 2, {}
    ),
    "a whole job on two hosts": Case(run([1.4, 1.4], "ab", 2.8), [run(FAST, "ef")] * 2, {}),
    "a whole job on the same host": Case(run([1.4, 1.4], "aa", 2.8), [run(FAST, "aa")] * 2, None),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_stages_that_are_slow_for_their_hosts(case: Case) -> None:
    """Earlier runs or other jobs decide whether a stage is slow because of its hosts."""
    found = slow_stages(case.unit, case.runs, case.slow_hosts, 2)
    if case.slow is None:
        assert found is None
        return
    assert found is not None
    assert found.factors == case.slow
    assert (found.saved_s, found.kept) == pytest.approx((case.saved_s, case.kept))
    assert (found.runs, found.jobs) == (len(case.runs), 3 if case.slow_hosts else 0)


def test_transfers_slower_than_on_other_days() -> None:
    found = slow_transfers(run(ideal_step_s=2.5, forward_pp_comm=0.02), ELSEWHERE, 2)
    assert found is not None
    assert found.factor == pytest.approx(10.0)
    assert (found.usual_s, found.runs) == ({"forward-pp-comm": 0.002}, 2)


def test_transfers_as_on_other_days_cost_nothing_more() -> None:
    found = slow_transfers(run(ideal_step_s=2.5, forward_pp_comm=0.003), ELSEWHERE, 2)
    assert found is not None
    assert found.usual_s == {}


@pytest.mark.parametrize(
    "unit",
    [
        run(forward_pp_comm=0.02, forward_compute=0.15, ideal_step_s=2.5),
        Run(100.0, 2.5, run().stages, {"forward-compute": 0.1}),
    ],
    ids=["other work", "no transfers"],
)
def test_transfers_that_cannot_be_compared(unit: Run) -> None:
    assert slow_transfers(unit, ELSEWHERE, 2) is None
    assert slow_transfers(run(forward_pp_comm=0.02), ELSEWHERE[:1], 2) is None


def test_runs_of_other_numbers_of_microbatches_or_stages_are_not_compared() -> None:
    others = [run()._replace(ops_per_step=112.0), run()._replace(ops_per_step=88.0), run([1.0], "a")]
    assert comparable(run(), [*others, *ELSEWHERE]) == ELSEWHERE


IDLE = run([0.0, 1.0, 1.0, 1.0], forward_pp_comm=0.02)


def test_stages_that_compute_nothing_are_left_out() -> None:
    slow = run([1.0, 1.5, 1.0, 1.0])
    assert slow_stages(slow, [IDLE, IDLE], {}, 2) is None
    assert slow_stages(slow, [IDLE, *ELSEWHERE], {}, 2) == slow_stages(slow, ELSEWHERE, {}, 2)
    assert slow_stages(IDLE, ELSEWHERE, {"b": SlowHost(3, 0.25)}, 2) is None


def test_a_unit_whose_steps_take_no_time_could_save_none() -> None:
    assert slow_transfers(Run(100.0, 0.0, IDLE.stages, {"forward-pp-comm": 0.0}), ELSEWHERE, 2) is None
