"""Draw jobs with or without blocking transfers, record them, and compute their true slowdown.

If one call holds an eager send and a receive, the log shows the end of the call, which may be the end of the
send's copy. The log then hides when the received data arrived: at the start of the call, or only at its end.
Jobs that differ only in these arrivals have the same log. The slowdown S can be computed from the log only if
all these jobs have the same S.
"""

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from tests.evaluation.blocking.workers import (
    BACKWARD,
    FORWARD,
    NAMES,
    Floats,
    Job,
    Op,
    Pipeline,
    Times,
    Transfer,
)

EVERY: Final = frozenset({"forward-send", "forward-recv", "backward-send", "backward-recv"})
RECVS: Final = frozenset({"forward-recv", "backward-recv"})
KINDS: Final = {
    "streams": (frozenset[str](), False),
    "blocking": (EVERY, False),
    "receives": (RECVS, False),
    "fused": (EVERY, True),
    "mixed: forward": (frozenset({"forward-send", "forward-recv"}), False),
    "mixed: forward-recv": (frozenset({"forward-recv"}), False),
    "mixed: all but sends back": (EVERY - {"backward-send"}, False),
    "buffered": (EVERY, False),
    "buffered, fused": (EVERY, True),
    "buffered, receives": (RECVS, False),
}
"""By kind of job: the op types that block, and whether Megatron's fused pairs are one call. Kinds named
"buffered" have eager sends."""
HEAVY: Final = 1.3
FAULTS: Final = ("none", "worker", "link", "stage", "late")
MOST_UNKNOWN: Final = 1e-3
"""A slowdown counts as known if jobs with the same log differ in S by at most this relative amount."""
NOTICED_S: Final = 1e-7
"""Resolution of times in logs. [s]"""
FIRST_US: Final = 1_767_600_000_000_000


class Drawn(NamedTuple):
    """A drawn job: its log, its fault, and its true step times.

    step_s, ideal_s      : step times without launch delays: with actual and with ideal durations. [s]
    healthy_s, recorded_s : step times without the fault, and as logged. Without the fault, a heavy stage is
                   one whose excess layers are spread over all stages. [s]
    slow_link            : (direction, sending stage, receiving stage); None if no link is slow.
    unknown              : largest S over smallest S, minus 1, of the jobs that have this log.
    is_like_a_clock      : whether a job without a slow link, but with wrong clocks, could have the same log.
    """

    kind: str
    fault: str
    job: Job
    rank_steps: pa.Table
    manifest: dict[str, Any]
    step_s: float
    ideal_s: float
    healthy_s: float
    recorded_s: float
    slow_link: tuple[str, int, int] | None = None
    unknown: float = 0.0
    is_like_a_clock: bool = False

    @property
    def slowdown(self) -> float:
        return self.step_s / self.ideal_s

    @property
    def is_recorded(self) -> bool:
        """Return whether the log determines the slowdown, to within MOST_UNKNOWN."""
        return self.unknown <= MOST_UNKNOWN


class Recorded(NamedTuple):
    """A recorded job with its mean step time. [s]"""

    rank_steps: pa.Table
    manifest: dict[str, Any]
    step_s: float


def simulated_job(job: Job, times: Times, *, one_host: bool = True) -> Recorded:
    """Run a job whose ops take the given times, and record it."""
    ops = Pipeline(job, times).run()
    return Recorded(
        _rank_steps(job, ops, one_host=one_host), _manifest(job, "job"), float(_step_s(ops).mean())
    )


def draw(seed: int, kind: str, *, is_control: bool = False) -> Drawn:
    """Draw a job; with `is_control`, the same job in which no transfer blocks and no send is eager."""
    rng = np.random.default_rng([31, seed])
    blocking, is_fused = KINDS[kind]
    is_gpipe = not is_fused and bool(rng.random() < 0.3)
    job = Job(
        pp=int(rng.choice([2, 3, 4, 6])),
        dp=int(rng.choice([1, 2, 4])),
        microbatches=int(rng.integers(4, 13)),
        steps=12,
        blocking=blocking,
        is_eager=kind.startswith("buffered"),
        is_fused=is_fused,
        is_gpipe=is_gpipe,
    )
    if is_control:
        job = job._replace(blocking=frozenset(), is_eager=False, is_fused=False)
    fault = FAULTS[int(rng.integers(len(FAULTS)))]
    healthy = _times(job, rng)
    faulty, link, is_later = _with_fault(job, healthy, fault, rng)
    measured = _measured(job, faulty)
    step_s = _step_s(Pipeline(job, measured).run()).mean()
    ideal_s = _step_s(Pipeline(job, _ideal(job, measured)).run()).mean()
    pipeline = Pipeline(job, faulty)
    ops = pipeline.run()
    recorded_s = float(_step_s(ops).mean())
    healthy_s = float(_step_s(Pipeline(job, _evened(job, healthy, fault)).run()).mean())
    hosts = bool(rng.random() < 0.5)
    facts = _manifest(job, f"{kind}-{seed}")
    rank_steps = _rank_steps(job, ops, one_host=hosts)
    may_be = (
        [true_slowdown(job, each) for each in alike(pipeline)] if job.is_eager and job.is_fused else [1.0]
    )
    unknown = max(may_be) / min(may_be) - 1
    # Two hosts' clocks may be wrong by half of the link's extra time. Both directions of the link then always
    # take equally long, as if no link were slow.
    is_like_a_clock = link is not None and job.is_eager and job.pp == 2 and not hosts and not is_later
    return Drawn(
        kind,
        fault,
        job,
        rank_steps,
        facts,
        step_s,
        ideal_s,
        healthy_s,
        recorded_s,
        link,
        unknown,
        is_like_a_clock,
    )


def alike(pipeline: Pipeline) -> list[Times]:
    """Return times with the earliest and with the latest arrivals of data that leave the log as it is."""
    sooner, later = pipeline.times.transfer.copy(), pipeline.times.transfer.copy()
    for op in (op for worker in pipeline.workers for op in worker.ops):
        if op.message is not None and op.op.endswith("-recv"):
            arrived_s = pipeline.end_s(Transfer(op.message, is_send=False))
            place = op.message.direction, op.message.sender, op.message.microbatch
            is_hidden = op.end_s > (op.end_s if arrived_s is None else arrived_s) + NOTICED_S
            sooner[place][is_hidden] = 0.0
            sent_s = pipeline.posts[Transfer(op.message, is_send=True)]
            later[place][is_hidden] = (op.end_s - sent_s)[is_hidden]
    return [pipeline.times._replace(transfer=each) for each in (sooner, later)]


def true_slowdown(job: Job, times: Times) -> float:
    """Step time divided by the step time with ideal durations, both without launch delays."""
    measured = _measured(job, times)
    step_s, ideal_s = (
        _step_s(Pipeline(job, each).run()).mean() for each in (measured, _ideal(job, measured))
    )
    return float(step_s / ideal_s)


def _times(job: Job, rng: np.random.Generator) -> Times:
    lanes = job.steps, job.dp
    forward_s = float(rng.uniform(0.01, 0.1))
    noise = float(rng.choice([0.003, 0.01, 0.02]))
    moves_s = forward_s * float(rng.choice([0.005, 0.02, 0.1, 0.25]))

    def noisy(mean_s: Floats, *shape: int) -> Floats:
        values: Floats = mean_s * np.exp(noise * rng.standard_normal((*shape, *lanes)))
        return values

    sizes = np.array([forward_s, 2 * forward_s]).reshape(2, 1, 1, 1, 1)
    transfer = noisy(np.array(moves_s), 2, job.pp, job.microbatches)
    return Times(
        compute=noisy(sizes, 2, job.pp, job.microbatches),
        transfer=transfer,
        copy=transfer * 0.3,
        reduce=noisy(np.array(forward_s), job.pp),
        update=noisy(np.array(forward_s / 2), job.pp),
        late=np.zeros((job.pp, *lanes)),
        launch_s=8e-6,
    )


def _with_fault(
    job: Job, times: Times, fault: str, rng: np.random.Generator
) -> tuple[Times, tuple[str, int, int] | None, bool]:
    """Return times with the fault, the slow link if any, and whether the link is fast in the first steps."""
    link, is_later = None, False
    compute, transfer, late = times.compute.copy(), times.transfer.copy(), times.late.copy()
    stage, dp_rank = int(rng.integers(job.pp)), int(rng.integers(job.dp))
    if fault == "worker":
        compute[:, stage, :, :, dp_rank] *= 1.4
    elif fault == "link":
        direction, first = int(rng.integers(2)), int(rng.choice([0, job.steps // 2]))
        sender = int(rng.integers(job.pp - 1)) + direction
        transfer[direction, sender, :, first:] += 0.5 * float(times.compute.mean())
        link = NAMES[direction], sender, sender + 1 - 2 * direction
        is_later = first > 0
    elif fault == "stage":
        compute[:, -1] *= HEAVY
    elif fault == "late":
        late += rng.uniform(0.02, 0.1) * job.microbatches * 3 * float(times.compute[FORWARD].mean())
    return times._replace(compute=compute, transfer=transfer, late=late), link, is_later


def _evened(job: Job, healthy: Times, fault: str) -> Times:
    """Return times without the fault; a heavy stage's excess layers are spread over all stages."""
    shares = 1 + (HEAVY - 1) / job.pp if fault == "stage" else 1.0
    return healthy._replace(compute=healthy.compute * shares)


def _measured(job: Job, times: Times) -> Times:
    """Return times without late starts; transfers last from when both ends are posted, as in logs. [s]"""
    punctual = times._replace(late=times.late * 0.0, launch_s=0.0)
    if not job.is_eager:
        return punctual
    pipeline = Pipeline(job, times)
    pipeline.run()
    transfer = times.transfer.copy()
    for each in (end for end in pipeline.posts if not end.is_send):
        place = each.message.direction, each.message.sender, each.message.microbatch
        sent_s = pipeline.posts[each._replace(is_send=True)]
        arrived_s = np.maximum(sent_s + times.transfer[place], pipeline.posts[each] + 20e-6)
        transfer[place] = arrived_s - np.maximum(sent_s, pipeline.posts[each])
    return punctual._replace(transfer=transfer, is_measured=True)


def _ideal(job: Job, times: Times) -> Times:
    """Ideal durations as in the model: means of computes, and medians of transfers by direction."""
    compute, transfer, copy = (np.empty_like(each) for each in (times.compute, times.transfer, times.copy))
    for direction, stages in ((FORWARD, slice(0, job.pp - 1)), (BACKWARD, slice(1, job.pp))):
        compute[direction] = times.compute[direction].mean()
        for target, source in ((transfer, times.transfer), (copy, times.copy)):
            target[direction] = np.median(source[direction, stages])
    reduce, update = (
        np.full_like(times.reduce, np.median(times.reduce)),
        np.full_like(times.update, times.update.mean()),
    )
    return times._replace(compute=compute, transfer=transfer, copy=copy, reduce=reduce, update=update)


def _step_s(stages: list[list[Op]]) -> Floats:
    """Time of each step, shape (step,). [s]"""
    ends = [op.end_s.max(axis=1) for ops in stages for op in ops]
    starts = [op.start_s.min(axis=1) for ops in stages for op in ops]
    step_s: Floats = np.max(ends, axis=0) - np.min(starts, axis=0)
    return step_s


def _manifest(job: Job, name: str) -> dict[str, Any]:
    sizes = {"dp_size": job.dp, "pp_size": job.pp, "tp_size": 1, "cp_size": 1, "vpp_size": 1}
    return {"job_id": name, "run_id": "r", **sizes, "world_size": job.dp * job.pp, "gpu_hours": 100.0}


def _rank_steps(job: Job, stages: list[list[Op]], *, one_host: bool) -> pa.Table:
    rows = []
    for stage, ops in enumerate(stages):
        start_us = np.array([op.start_s for op in ops]) * 1e6
        length_us = np.array([op.end_s for op in ops]) * 1e6 - start_us
        for step in range(job.steps):
            for dp_rank in range(job.dp):
                order = np.argsort(start_us[:, step, dp_rank], kind="stable")
                rank = dp_rank * job.pp + stage
                rows.append(
                    {
                        "step": step,
                        "rank": rank,
                        "dp_rank": dp_rank,
                        "pp_rank": stage,
                        "tp_rank": 0,
                        "host": "host" if one_host else f"host-{rank}",
                        "t0_us": FIRST_US + step * 60_000_000,
                        "op": [ops[at].op for at in order],
                        "start_us": np.round(start_us[order, step, dp_rank], 1).tolist(),
                        "duration_us": np.round(length_us[order, step, dp_rank], 1).tolist(),
                        "microbatch": [ops[at].microbatch for at in order],
                        "model_chunk": [0] * len(order),
                    }
                )
    return pa.Table.from_pylist(rows)
