"""Every flag is set on a job that must have it, and not set on a similar job that must not have it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import pytest

from jobs.synthetic.mechanisms.mechanism import Mechanism, Window
from jobs.synthetic.mechanisms.nuisances import ClockSkew, ExpertImbalance
from jobs.synthetic.mechanisms.transfers import CongestedNetwork
from jobs.synthetic.mechanisms.workers import MixedTypes, SickHost, WeakGpu
from jobs.synthetic.shape import JobShape, Workload
from schemas.causes import FLAG_REASONS
from schemas.vocabulary import CAUSES, LOGGED_CAUSES
from tests.support.random_jobs import generate_job
from tests.udfs.kernel.diagnosis.generated import USUAL, WORKLOAD, Diagnosed, diagnosed
from tests.udfs.kernel.diagnosis.kernel_jobs import found_in, job_of
from udfs.kernel import cause
from udfs.kernel.diagnosis.flags import flags_of, is_skew
from udfs.kernel.diagnosis.savings import Savings


class Job(NamedTuple):
    """Arguments with which a job is generated."""

    shape: JobShape = USUAL
    mechanisms: Sequence[Mechanism] = ()
    workload: Workload = WORKLOAD

    def diagnosed(self) -> Diagnosed:
        return diagnosed(self.shape, *self.mechanisms, workload=self.workload)


class Case(NamedTuple):
    """A job that must have a flag, the causes that get it, and a similar job without the flag."""

    flagged: Job
    causes: Sequence[int]
    similar: Job


ALL_CAUSES: Final = [code for code, name in enumerate(CAUSES) if name not in LOGGED_CAUSES]
"""All causes that any log can show, without those that need special records such as data-loads."""
ONE_STAGE: Final = JobShape(dp_size=4, microbatches=3, steps=12)
COLLECTIVES: Final = frozenset(
    {"params-all-gather", "grads-reduce-scatter", "embedding-grads-all-reduce", "optimizer-clip-main-grad"}
)
"""Without these collectives, nothing relates the clocks of replicas on different hosts to each other."""
QUICK_COLLECTIVES: Final = replace(WORKLOAD, usual_s={**WORKLOAD.usual_s, **dict.fromkeys(COLLECTIVES, 1e-5)})
ONE_REPLICA: Final = replace(USUAL, dp_size=1)
SLOW: Final = [WeakGpu(0, 1, 1.3)]
FIVE_SLOW: Final = [
    WeakGpu(dp_rank, stage, 1.3) for dp_rank, stage in ((0, 0), (1, 1), (2, 2), (3, 3), (0, 2))
]
NINE_SLOW: Final = [
    WeakGpu((stage + place) % 4, stage, 1.3, 0.3)
    for place, stage in [*((place, stage) for place in range(2) for stage in range(4)), (2, 0)]
]
"""Nine of sixteen workers, which are slow in different steps."""
EVERY_HOST: Final = [SickHost(f"node-000{host}", 1.4, window=Window(6)) for host in range(2)]
TWO_TYPES: Final = {"H100": (1.0, 1.0), "A100": (1.4, 1.4)}
FOUR_OF_EIGHT: Final = {f"node-{number:04d}": "H100" if number % 2 else "A100" for number in range(8)}
"""Each stage has hosts of both types."""

CASES: Final = {
    cause.FEW_STEPS: Case(Job(replace(USUAL, steps=3)), ALL_CAUSES, Job(replace(USUAL, steps=4))),
    cause.FEW_PEERS: Case(
        Job(JobShape(steps=12)),
        [cause.SLOW_WORKER, cause.STAGE_IMBALANCE],
        Job(JobShape(steps=12, dp_size=2)),
    ),
    cause.WORKER_OR_STAGE: Case(
        Job(ONE_REPLICA, SLOW),
        [cause.SLOW_WORKER, cause.STAGE_IMBALANCE],
        Job(replace(USUAL, dp_size=2), SLOW),
    ),
    cause.WORKER_OR_DATA: Case(
        Job(ONE_STAGE, [WeakGpu(1, 0, 1.5)]),
        [cause.SLOW_WORKER, cause.DATA_IMBALANCE],
        Job(replace(ONE_STAGE, microbatches=4), [WeakGpu(1, 0, 1.5)]),
    ),
    cause.NO_USUAL_TRANSFER: Case(
        Job(mechanisms=[CongestedNetwork("pipeline", 0.03)]),
        [cause.COMMUNICATION],
        Job(mechanisms=[CongestedNetwork("pipeline", 0.06)]),
    ),
    cause.MANY_SLOW_CELLS: Case(
        Job(replace(USUAL, steps=20), NINE_SLOW),
        [cause.SLOW_WORKER],
        Job(replace(USUAL, steps=20), NINE_SLOW[:8]),
    ),
    cause.CLOCK_SKEW: Case(
        Job(replace(ONE_STAGE, tp_size=8, absent=COLLECTIVES), workload=QUICK_COLLECTIVES),
        [cause.COMMUNICATION, cause.LAUNCH_DELAY],
        Job(replace(ONE_STAGE, absent=COLLECTIVES), workload=QUICK_COLLECTIVES),
    ),
    cause.MOSTLY_UNEXPLAINED: Case(
        Job(mechanisms=EVERY_HOST), [cause.UNEXPLAINED], Job(mechanisms=EVERY_HOST[:1])
    ),
    cause.HIGH_DISCREPANCY: Case(
        Job(workload=replace(WORKLOAD, launch_s=0.01)),
        ALL_CAUSES,
        Job(workload=replace(WORKLOAD, launch_s=0.0005)),
    ),
    cause.TYPE_OR_STAGE: Case(
        Job(mechanisms=[MixedTypes({"node-0000": "H100", "node-0001": "A100"}, TWO_TYPES)]),
        [cause.STAGE_IMBALANCE, cause.MIXED_HARDWARE],
        Job(replace(USUAL, tp_size=4), [MixedTypes(FOUR_OF_EIGHT, TWO_TYPES)]),
    ),
    cause.TYPE_OR_WORKER: Case(
        Job(
            replace(USUAL, tp_size=4),
            [MixedTypes({**dict.fromkeys(FOUR_OF_EIGHT, "H100"), "node-0002": "A100"}, TWO_TYPES)],
        ),
        [cause.MIXED_HARDWARE],
        Job(replace(USUAL, tp_size=4), [MixedTypes(FOUR_OF_EIGHT, TWO_TYPES)]),
    ),
}


@pytest.mark.parametrize(("flag", "case"), CASES.items(), ids=[FLAG_REASONS[flag - 1] for flag in CASES])
def test_a_flag_is_raised_where_it_must_be_and_not_beside(flag: int, case: Case) -> None:
    reason = FLAG_REASONS[flag - 1]
    flags = case.flagged.diagnosed().flags
    assert {name for name, found in flags.items() if found == reason} == {
        CAUSES[each] for each in case.causes
    }
    assert reason not in case.similar.diagnosed().flags.values()


@pytest.mark.parametrize(
    ("replayed", "is_flagged"), [(0.94, True), (0.96, False), (1.04, False), (1.06, True)]
)
def test_a_replay_may_miss_the_record_by_as_much_either_way(replayed: float, is_flagged: bool) -> None:
    job = job_of(generate_job(USUAL, [], 1))
    nothing = dict.fromkeys(cause.FIXABLE, 0.0)
    flags = flags_of(found_in(job.blocks(), job.layout), Savings(nothing, nothing, 0.0, replayed), (), 0.0, 0)
    assert (set(flags) == {cause.HIGH_DISCREPANCY}) is is_flagged


@pytest.mark.parametrize(("hidden", "is_flagged"), [(0.05, True), (0.03, False)])
def test_what_is_attributed_to_causes_that_do_not_hold_has_no_name_either(
    hidden: float, is_flagged: bool
) -> None:
    """Loss of causes that do not hold is unexplained, and flagged if it is over 30 % of all loss."""
    job = job_of(generate_job(USUAL, [], 1))
    nothing = dict.fromkeys(cause.FIXABLE, 0.0)
    attributed = nothing | {cause.SLOW_WORKER: 0.08, cause.STAGE_IMBALANCE: hidden}
    savings = Savings(nothing | {cause.SLOW_WORKER: 0.08}, attributed, 0.08 + hidden, 1.0)
    flags = flags_of(found_in(job.blocks(), job.layout), savings, {cause.SLOW_WORKER}, 0.0, 0)
    assert (flags[cause.UNEXPLAINED] == cause.MOSTLY_UNEXPLAINED) is is_flagged
    assert flags.count(cause.NO_FLAG) == cause.COUNT - is_flagged, "no other cause gets a flag"


def test_every_flag_has_its_case() -> None:
    assert sorted(CASES) == list(range(1, len(FLAG_REASONS) + 1))


def test_a_flagged_worker_or_stage_keeps_the_best_estimate_and_both_candidates() -> None:
    found = CASES[cause.WORKER_OR_STAGE].flagged.diagnosed()
    assert found.labels == ["stage_imbalance"]
    assert found.workers("stage_imbalance") == {(None, 1)}
    assert found.workers("slow_worker") == {(0, 1)}


def test_a_stage_of_one_worker_slower_than_layers_explain_is_taken_for_that_worker() -> None:
    """If a stage of one worker is slower than layers explain, the worker is named as slow, with a flag."""
    found = diagnosed(ONE_REPLICA, WeakGpu(0, 1, 1.7))
    assert found.labels == ["slow_worker"]
    assert found.workers("slow_worker") == found.struck
    assert found.flags["slow_worker"] == "slow_worker_or_stage_imbalance"
    assert found.rows["slow_worker"]["time_saved_fraction"] == pytest.approx(
        found.true["slow_worker"], rel=0.005
    )


def test_clocks_that_are_apart_are_no_slow_transfers_and_no_late_data() -> None:
    """Clocks that differ by 20 ms cause no flag and no named cause, because the simulator corrects them."""
    found = diagnosed(USUAL, ClockSkew(0.02))
    assert "clock_skew" not in found.flags.values()
    assert found.labels == []


def test_five_slow_workers_of_sixteen_are_all_named() -> None:
    found = diagnosed(USUAL, *FIVE_SLOW)
    assert found.flags == {}
    assert found.workers("slow_worker") == found.struck


def test_what_all_workers_lose_together_is_lost_and_has_no_name() -> None:
    """If all workers, on both hosts, are slow from step 6 on, their loss counts as unexplained."""
    found = CASES[cause.MOSTLY_UNEXPLAINED].flagged.diagnosed()
    assert found.labels == ["unexplained"]
    lost = found.rows["unexplained"]["lost_fraction"]
    assert lost == pytest.approx(found.true["slow_worker"], abs=0.005)


def test_microbatches_that_are_long_on_some_stages_alone_are_no_loss_without_a_name() -> None:
    """Microbatches that are long on only some stages count as noise, not as unexplained loss."""
    found = diagnosed(USUAL, ExpertImbalance(0.3))
    assert found.labels == []
    assert found.rows["unexplained"]["time_saved_fraction"] < 0.025


def test_clocks_may_explain_slow_transfers_where_stages_differ_in_computes() -> None:
    """Wrong clocks may explain slow transfers even if no times of computes are available."""
    job = job_of(generate_job(USUAL, [], seed=1))
    found = found_in(job.blocks(), job.layout)._replace(computes=None, factors=None, rest=None)
    found = found._replace(job=found.job._replace(skew_s=0.01))
    assert is_skew(cause.COMMUNICATION, found, saved=0.05, least=0.025)
