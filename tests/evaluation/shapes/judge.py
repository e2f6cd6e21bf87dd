"""Diagnose a drawn job and compare the diagnosis with the truth."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.evaluation.shapes.draw import Job, draw_job
from tests.evaluation.shapes.faults import GROWS, SPIKES, Fault, Workers
from tests.evaluation.shapes.layout import Layout
from tests.evaluation.shapes.truth import Truth, names_not_wrong, same_ops, truth, unit
from udfs.what_if import simulate_job

UNEXPLAINED: Final = "unexplained"
MISNAMED_BELOW: Final = 0.015
"""A cause is named wrongly if its fault saves less than this. Between this and the saving from which a fault
must be named, both answers are right."""
STARTS_COUNT: Final = 0.05
"""The first step and the course of a fault are judged only if its fix saves at least this share of the
step."""

_UNSHOWN: Final = ("rank", "workers", "effect", "share_of_steps", "pattern", "first_time", "last_time")

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Verdict:
    """What the diagnosis says about one fault; an `is_..._right` is None if it is not judged.

    why_not : why the fault need not be named; empty if it must be named.
    """

    text: str
    cause: str | None
    direction: str
    onset: str
    reach: str
    saved_fraction: float
    alone_fraction: float
    why_not: str
    is_named: bool = False
    flag: str | None = None
    is_place_right: bool | None = None
    is_direction_right: bool | None = None
    is_first_right: bool | None = None
    is_course_right: bool | None = None


@dataclass(frozen=True)
class Judged:
    """One judged job: a verdict on each fault, wrong causes, and the true and the reported lost share."""

    seed: int
    kind: str
    noise: str
    layout: str
    status: str
    lost_fraction: float
    said_lost_fraction: float | None
    verdicts: list[Verdict]
    wrong: list[str]
    said: list[str] = field(default_factory=list)


def judge(seed: int) -> Judged:
    """Draw a job, diagnose it, and compare the result with the truth."""
    job = draw_job(seed)
    results = simulate_job(*unit(job))
    rows = {row["cause"]: row for row in results["job_causes"].to_pylist()}
    (summary,) = results["job_slowdown"].to_pylist()
    return compare(job, truth(job), rows, summary["status"])


def compare(job: Job, true: Truth, rows: Mapping[str, Row], status: str) -> Judged:
    """Compare the rows of job_causes, by cause, with the true costs of the job's faults."""
    layout = job.layout
    saved = [max(pair) for pair in zip(true.beside_fraction, true.alone_fraction, strict=True)]
    allowed = {
        name
        for fault, most in zip(job.faults, saved, strict=True)
        if most >= MISNAMED_BELOW
        for name in names_not_wrong(layout, fault, job.faults)
    }
    named = [cause for cause, row in rows.items() if _is_named(row) and cause != UNEXPLAINED]
    lost = [row["lost_fraction"] for row in rows.values() if row.get("lost_fraction") is not None]
    return Judged(
        seed=job.seed,
        kind=job.kind,
        noise=job.noise,
        layout=_layout_text(layout),
        status=status,
        lost_fraction=max(true.lost_fraction, 0.0),
        said_lost_fraction=sum(lost) if lost and len(lost) == len(rows) else None,
        verdicts=[_verdict(job, number, true, rows) for number in range(len(job.faults))],
        wrong=[cause for cause in named if cause not in allowed],
        said=[_said(row) for row in rows.values() if row["is_cause"] or row["cause"] == UNEXPLAINED],
    )


def _is_named(row: Row) -> bool:
    return bool(row["is_cause"]) and row["flag_reason"] is None


def _verdict(job: Job, number: int, true: Truth, rows: Mapping[str, Row]) -> Verdict:
    fault = job.faults[number]
    saved = true.beside_fraction[number]
    verdict: dict[str, Any] = {
        **{name: getattr(fault, name) for name in ("text", "cause", "direction", "onset", "reach")},
        "saved_fraction": saved,
        "alone_fraction": true.alone_fraction[number],
        "why_not": true.undecidable[number],
    }
    row = rows.get(fault.cause or "")
    if row is None:
        return Verdict(**verdict)
    verdict["flag"] = row["flag_reason"] if row["is_cause"] else None
    culprits = [(culprit, implied_workers(culprit, job.layout)) for culprit in row["culprits"]]
    own = [
        (culprit, workers) for culprit, workers in culprits if not fault.workers or workers & fault.workers
    ]
    alike = [each for each in job.faults if each.cause == fault.cause]
    if not _is_named(row) or (len(alike) > 1 and fault.workers and not own):
        return Verdict(**verdict)
    verdict["is_named"] = True
    if fault.workers and fault.reach != SPIKES:
        verdict["is_place_right"] = _is_place_right(fault, alike, [workers for _, workers in culprits])
    is_merged = any(
        each is not fault and each.workers & fault.workers and same_ops(each, fault) for each in alike
    )
    if own and not is_merged:
        best = min(own, key=lambda each: _distance(each, fault))[0]
        verdict |= _in_time(job.layout, fault, best, saved)
    return Verdict(**verdict)


def implied_workers(culprit: Row, layout: Layout) -> Workers:
    """Return the workers that a culprit includes: one worker, or those of a host, stage, replica or job."""
    stage, dp_rank = culprit.get("pp_rank"), culprit.get("dp_rank")
    if stage is not None and dp_rank is not None:
        return frozenset({(stage, dp_rank)})
    if culprit.get("workers"):
        return frozenset((each["pp_rank"], each["dp_rank"]) for each in culprit["workers"])
    texts = [each for value in culprit.values() for each in (value if isinstance(value, list) else [value])]
    hosts = [int(each[5:]) for each in texts if isinstance(each, str) and each.startswith("host-")]
    if hosts:
        return frozenset().union(*(layout.workers_of_host(host) for host in hosts))
    return frozenset(
        worker for worker in layout.workers if stage in (None, worker[0]) and dp_rank in (None, worker[1])
    )


def _is_place_right(fault: Fault, alike: Sequence[Fault], said: Sequence[Workers]) -> bool:
    """Return whether the named workers include all of the fault's, and none without a fault of its cause.

    Of a link, one end is enough; of several heavy stages, one stage.
    """
    named: Workers = frozenset().union(*said)
    true: Workers = frozenset().union(*(each.workers for each in alike))
    if fault.cause in ("communication", "stage_imbalance"):
        return bool(named & fault.workers) and named <= true
    return fault.workers <= named <= true


def _distance(said: tuple[Row, Workers], fault: Fault) -> tuple[int, bool]:
    """Number of workers that are only in the culprit or only in the fault, and whether directions differ."""
    culprit, workers = said
    return len(workers ^ fault.workers), culprit.get("direction") != fault.direction


def _in_time(layout: Layout, fault: Fault, culprit: Row, saved: float) -> dict[str, bool]:
    """Return whether `direction`, `first_step` and `course` of a culprit are right, as far as judged."""
    found: dict[str, bool] = {}
    if fault.cause == "slow_worker":
        found["is_direction_right"] = culprit.get("direction") == fault.direction.removeprefix("late ")
    if fault.reach == SPIKES:
        return found
    if saved >= STARTS_COUNT:
        if fault.onset != GROWS:
            found["is_first_right"] = _is_near(layout, culprit.get("first_step"), fault.first)
        found["is_course_right"] = culprit.get("course") == fault.onset
    return found


def _is_near(layout: Layout, said: int | None, first: int) -> bool:
    """Return whether a training step number is that of the true first step, or of a step next to it."""
    return said is not None and said in layout.step[max(first - 1, 0) : first + 2]


def _layout_text(layout: Layout) -> str:
    receives = "early" if layout.is_early else "blocking"
    sends = "buffered" if layout.is_buffered else "rendezvous"
    return (
        f"dp {layout.dp} pp {layout.pp} vpp {layout.vpp}, {layout.microbatches} microbatches, "
        f"{layout.steps} steps, {layout.host.max() + 1} hosts, {receives} receives, {sends} sends"
    )


def _said(row: Row) -> str:
    flag = f" ({row['flag_reason']})" if row["flag_reason"] else ""
    culprits = []
    for each in row["culprits"][:4]:
        shown = [
            f"{name} {value}" for name, value in each.items() if name not in _UNSHOWN and value is not None
        ]
        culprits.append(", ".join([*shown, f"effect {each['effect']:.3f}"]))
    more = f" +{len(row['culprits']) - 4}" if len(row["culprits"]) > 4 else ""
    lost = "-" if row.get("lost_fraction") is None else f"{row['lost_fraction']:.4f}"
    saved = f"{row['time_saved_fraction']:.4f}"
    return f"{row['cause']} saves {saved} lost {lost}{flag}: {'; '.join(culprits)}{more}"
