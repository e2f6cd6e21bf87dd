"""Jobs on which the simulator once was wrong, or easily could be; each is named after its peculiarity."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from jobs.synthetic.job import GeneratedJob
from jobs.synthetic.shape import JobShape
from tests.support.random_jobs import NOISY, USUAL, VIRTUAL, generate_job, with_early_optimizer, without_ops
from tests.udfs.lines import Ops, line, manifest, rank_steps


def _op_that_may_end_a_step_before_replicas_meet() -> GeneratedJob:
    """A replica's step ends with a send, which is recorded beyond the clip and for which no op waits.

    The kernel replays the ops after the replicas meet in the clip separately, so it must keep the latest
    end before the clip. The sends take 49 s and 3 s, and 26 s ideally; all other ops take 1 s. So T = 50
    s and T_ideal = 27 s; with only replica 0 as recorded the step takes 50 s, with only replica 1 27 s.
    """
    lines = []
    for dp_rank, send_s in ((0, 49), (1, 3)):
        first: Ops = [
            ("forward-compute", 0, 1),
            ("forward-send", 1, send_s),
            ("optimizer-clip-main-grad", 1, 3),
        ]
        last: Ops = [("forward-recv", 0, 2), ("forward-compute", 2, 1), ("optimizer-clip-main-grad", 3, 1)]
        lines += [line(0, dp_rank, 0, first), line(0, dp_rank, 1, last)]
    return GeneratedJob(rank_steps(*lines), manifest(dp_size=2, pp_size=2))


def _batched_send_of_a_single_microbatch() -> GeneratedJob:
    """A batched send is recorded until the recv of its call ends, which is late with a single microbatch."""
    return generate_job(
        JobShape(dp_size=2, pp_size=3, microbatches=1, batched=True, steps=3), [], seed=7, workload=NOISY
    )


def _more_replicas_than_are_compared_one_by_one() -> GeneratedJob:
    """Of more than eight replicas, the latest start is computed along an array axis; the job has nine."""
    return generate_job(JobShape(dp_size=9, pp_size=2, microbatches=2, steps=2), [], seed=31, workload=NOISY)


def _op_type_that_one_step_lacks() -> GeneratedJob:
    """The second of three steps has no gc: if only gc keeps its times, all ops of the step are ideal."""
    rows = generate_job(replace(USUAL, pp_size=2), [], seed=23, workload=NOISY)
    without = [place for place, step in enumerate(rows.rank_steps["step"].to_pylist()) if step == 1]
    return GeneratedJob(without_ops(rows.rank_steps, "gc", without, last_alone=True), rows.manifest)


def _noop_transfers_of_all_rows() -> GeneratedJob:
    """Transfers that moved no data, recorded in every row."""
    return generate_job(replace(USUAL, pp_size=3, noop_transfers="all"), [], seed=11, workload=NOISY)


def _noop_transfers_of_some_rows() -> GeneratedJob:
    """Two rows lack one of the transfers without data, which gives another graph with the same peers."""
    job = _noop_transfers_of_all_rows()
    return GeneratedJob(without_ops(job.rank_steps, "forward-recv", [0, 9], last_alone=True), job.manifest)


def _collectives_of_unequal_number() -> GeneratedJob:
    """One replica lacks its last reduce-scatter, another its last two; all other collectives are complete."""
    job = generate_job(replace(USUAL, dp_size=3, pp_size=2, buckets=3), [], seed=13, workload=NOISY)
    rows = without_ops(job.rank_steps, "grads-reduce-scatter", [1, 4, 4, 11], last_alone=True)
    return GeneratedJob(rows, job.manifest)


def _sends_without_peer_amid_others() -> GeneratedJob:
    """Sends of the model's last chunk have no peer, and in a virtual pipeline lie between other sends."""
    return generate_job(
        replace(VIRTUAL, pp_size=2, microbatches=4, vpp_size=3, steps=3), [], seed=17, workload=NOISY
    )


def _recv_beyond_the_last_compute() -> GeneratedJob:
    """The profiler lost stage 1's second forward, whose recv began during the first one.

    The recv matches no compute. So it waits for none, not even for the first forward during which it was
    recorded: T = 12 s.
    """
    first: Ops = [
        ("forward-compute", 0, 1, 0),
        ("forward-send", 1, 1),
        ("forward-compute", 1, 1, 1),
        ("forward-send", 2, 1),
    ]
    last: Ops = [("forward-recv", 0, 2), ("forward-compute", 2, 10, 0), ("forward-recv", 2, 1)]
    return GeneratedJob(rank_steps(line(0, 0, 0, first), line(0, 0, 1, last)), manifest(pp_size=2))


def _transfer_clamp_in_a_late_step() -> GeneratedJob:
    """In the first and the last of three steps, a send ends 0.1 s before its recv begins."""
    healthy: list[dict[str, Any]] = []
    for step in range(3):
        recv_s = 2.0 if step == 1 else 1.9
        first: Ops = [
            ("forward-compute", 0, 1),
            ("forward-send", 1, 1 if step == 1 else 0.8),
            ("backward-compute", 2, 2 + step),
        ]
        last: Ops = [
            ("forward-recv", recv_s, 2.1 - recv_s),
            ("forward-compute", 2.1, 1),
            ("backward-compute", 3.1, 2),
        ]
        healthy += [line(step, 0, 0, first), line(step, 0, 1, last)]
    return GeneratedJob(rank_steps(*healthy), manifest(pp_size=2))


def _launch_delay_clamp_with_several_late_sources() -> GeneratedJob:
    """A layernorm all-reduce starts before gc and reduce-scatter have ended: its delay is clamped once."""
    ops: Ops = [
        ("forward-compute", 0, 1),
        ("backward-compute", 1, 1),
        ("grads-reduce-scatter", 2, 1),
        ("gc", 2, 0.2),
        ("layernorm-grads-all-reduce", 2.1, 1.9),
        ("separate-grads-all-reduce", 4, 1),
    ]
    return GeneratedJob(rank_steps(line(0, 0, 0, ops), line(1, 0, 0, ops)), manifest(cp_size=2))


def _compute_beside_a_gather_in_one_step() -> GeneratedJob:
    """In two of three steps, both chunks are gathered before the first compute, but not in the other step."""
    lines = []
    for step, begins_s in enumerate((0.4, 0.1, 0.4)):
        ops: Ops = [("params-all-gather", 0, 0.1, -1, 0), ("params-all-gather", 0.1, 0.1, -1, 1)]
        ops += [("forward-compute", begins_s + 4 * chunk, 4, 0, chunk) for chunk in (0, 1)]
        lines += [line(step, dp_rank, 0, ops) for dp_rank in (0, 1)]
    return GeneratedJob(rank_steps(*lines), manifest(dp_size=2, vpp_size=2))


def _launch_delay_clamps_of_every_step() -> GeneratedJob:
    """In every worker and step the optimizer starts long before the clip has ended."""
    job = generate_job(USUAL, [], seed=19, workload=NOISY)
    return GeneratedJob(with_early_optimizer(job.rank_steps, 50_000.0), job.manifest)


def _pairs(step: int, dp_rank: int, times_s: list[tuple[float, float]]) -> dict[str, Any]:
    """Return a row with forwards and backwards in turn; a backward of 0 s is left out."""
    ops: Ops = []
    now_s = 0.0
    for microbatch, (forward_s, backward_s) in enumerate(times_s):
        ops.append(("forward-compute", now_s, forward_s, microbatch))
        now_s += forward_s
        if backward_s:
            ops.append(("backward-compute", now_s, backward_s, microbatch))
            now_s += backward_s
    return line(step, dp_rank, 0, ops)


def _correlation_of_workers_that_hardly_have_one() -> GeneratedJob:
    """Five workers whose forward-backward correlations exist or not for different reasons.

    The first worker's times vary within steps, and those of the second only between steps. The third
    worker's forward always takes 0.7 s; its computed mean differs from 0.7 s in the last bit, which must
    not count as variation. The fourth worker has one pair of times in the first step and none later, the
    fifth one in each of two steps.
    """
    lines = []
    for step in range(3):
        same, other = 1.0 + step, 5.0 - 2 * step
        lines += [
            _pairs(step, 0, [(1.0, 2.0), (2.0, 3.5), (3.0 + step, 4.0)]),
            _pairs(step, 1, [(same, other + 0.25), (same, other + 0.25)]),
            _pairs(step, 2, [(0.7, 1.0 + step), (0.7, 2.0), (0.7, 2.5)]),
            _pairs(step, 3, [(1.5, 0.0 if step else 2.5), (1.0 + step, 0.0)]),
            _pairs(step, 4, [(1.0 + step, 2.0 + 3 * step if step < 2 else 0.0)]),
        ]
    return GeneratedJob(rank_steps(*lines), manifest(dp_size=5))


_ALL: Final[tuple[Callable[[], GeneratedJob], ...]] = (
    _op_that_may_end_a_step_before_replicas_meet,
    _batched_send_of_a_single_microbatch,
    _more_replicas_than_are_compared_one_by_one,
    _op_type_that_one_step_lacks,
    _noop_transfers_of_all_rows,
    _noop_transfers_of_some_rows,
    _collectives_of_unequal_number,
    _sends_without_peer_amid_others,
    _recv_beyond_the_last_compute,
    _transfer_clamp_in_a_late_step,
    _launch_delay_clamp_with_several_late_sources,
    _compute_beside_a_gather_in_one_step,
    _launch_delay_clamps_of_every_step,
    _correlation_of_workers_that_hardly_have_one,
)
REGRESSIONS: Final = {make.__name__.removeprefix("_"): make for make in _ALL}
"""Functions that make the jobs, by name of the peculiarity."""
