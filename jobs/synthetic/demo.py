"""The demo's fleet: a small list of jobs, most of them with a planted fault.

One host slows three jobs. One log is cut off and one has a misspelt op type, as happens in real logs.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np

from jobs.synthetic.fleet import SHIFTS, Fleet, FleetJob, write_fleet
from jobs.synthetic.log_files import run_folder, write_rank_logs
from jobs.synthetic.mechanisms.mechanism import Mechanism, Window
from jobs.synthetic.mechanisms.transfers import FlappingLink, SlowReads, SlowStorage
from jobs.synthetic.mechanisms.work import LossLayer, PackedSequences
from jobs.synthetic.mechanisms.workers import MixedTypes, SickHost, UnsynchronisedGc, WeakGpu
from jobs.synthetic.run_events import RunHabits
from jobs.synthetic.shape import JobIdentity, JobShape, Workload
from jobs.synthetic.simulation import JobPlan
from jobs.synthetic.whole import Run, WholeSimulation
from schemas.vocabulary import HEALTH_ENDS, HEALTH_FORMAT, HEALTH_STARTS, HEALTH_WARNING, Status

DAYS: Final = 3
SICK_HOST: Final = "node-0013"
"""The host that slows three jobs. The third has one replica, so that only the other two prove its cause."""
IDLE_HOST: Final = "node-0088"
"""A host of a job with too many restarts, which is therefore not analysed."""
TIRED_HOST: Final = "node-0110"
"""The host that becomes slow in the middle of the only job that it serves."""
USUAL: Final = Workload(forward_s=0.04, noise=0.008)
TYPES: Final = {"node-0096": "H100", "node-0097": "A100", "node-0098": "H100", "node-0099": "A100"}
"""Hosts of the job on GPUs of two types."""


ABOUT: Final = MappingProxyType({"cluster": "north", "gpu_type": "H100"})
"""Fields of every manifest."""


class DemoJob(NamedTuple):
    """One job of the demo's fleet.

    planted    : the planted fault, in a few words
    first_host : number of its first host
    hours      : hours it runs each day
    days       : first and last of the fleet's days on which it runs, counted from 0
    fields     : further fields of its manifest
    inspected  : whether logs of NCCL Inspector are written beside its rank logs
    habits     : how it starts, saves and fails; None: no events.jsonl is written
    """

    job_id: str
    team: str
    model: str
    planted: str
    shape: JobShape
    mechanisms: Sequence[Mechanism]
    first_host: int
    hours: float = 24.0
    days: tuple[int, int] = (0, DAYS - 1)
    compress: bool = False
    fields: Mapping[str, Any] = MappingProxyType({})
    lost_ranks: Sequence[int] = ()
    status: str = Status.ANALYSED
    inspected: bool = False
    habits: RunHabits | None = None

    def in_fleet(self, seed: int) -> FleetJob:
        """Return this job as a FleetJob with the given seed."""
        about = {"team": self.team, "model": self.model, "gpu_hours": self.shape.world_size * self.hours}
        return FleetJob(
            self.job_id,
            first=self.days[0] * SHIFTS,
            end=(self.days[1] + 1) * SHIFTS,
            plan=JobPlan(
                self.shape, tuple(self.mechanisms), seed, workload=USUAL, lost_ranks=self.lost_ranks
            ),
            fields={**ABOUT, **about, **self.fields},
            hosts=[f"node-{self.first_host + n:04d}" for n in range(self.shape.hosts)],
            status=self.status,
            compress=self.compress,
            inspected=self.inspected,
            habits=self.habits,
        )


SAVING: Final = RunHabits(
    startup_s=480,
    save_every=2000,
    save_s=25,
    mark_every=500,
    outage_s=1500,
    evaluate_every=4000,
    evaluate_s=90,
    queued_s=1800,
)
BASE: Final = JobShape(dp_size=4, pp_size=4, microbatches=8, steps=14, batched=True)
VIRTUAL: Final = replace(BASE, vpp_size=2, noop_transfers="all", overlapped=True)
JOBS: Final = (
    DemoJob(
        "gpt-175b", "foundation", "gpt-175b", f"slow worker on {SICK_HOST}",
        replace(BASE, tp_size=8), [SickHost(SICK_HOST, 1.45)], first_host=7, inspected=True,
        habits=replace(SAVING, failures=2),
    ),
    DemoJob(
        "chat-70b", "assistant", "chat-70b", f"two slow workers on {SICK_HOST}",
        replace(BASE, pp_size=2, tp_size=4), [SickHost(SICK_HOST, 1.3)], first_host=10, days=(1, 2),
    ),
    DemoJob(
        "gpt-70b", "foundation", "gpt-70b", "heavy last stage",
        replace(BASE, tp_size=4), [LossLayer(0.018, 0.036)], first_host=40, habits=SAVING,
    ),
    DemoJob(
        "long-context-7b", "research", "longctx-7b", "sequences of uneven length",
        JobShape(dp_size=8, pp_size=2, cp_size=2, microbatches=8, steps=14),
        [PackedSequences(token_limit=32_768, median_tokens=3000, spread=1.3)], first_host=50,
    ),
    DemoJob(
        "vision-22b", "multimodal", "vit-22b", "slow data loading",
        JobShape(dp_size=8, microbatches=6, steps=14), [SlowStorage(0.05)], first_host=60,
    ),
    DemoJob(
        "moe-8x22b", "foundation", "moe-8x22b", "a link that flaps", VIRTUAL,
        [FlappingLink(1, 0.038, 0.25)], first_host=70,
    ),
    DemoJob(
        "speech-3b", "speech", "asr-3b", "slow worker in one step of three",
        JobShape(dp_size=16, microbatches=4, steps=14, overlapped=True),
        [WeakGpu(5, 0, 1.6, 0.35)], first_host=72, compress=True,
    ),
    DemoJob(
        "code-13b", "research", "code-13b", "nothing", replace(BASE, pp_size=2), [], first_host=80,
        hours=12.0, compress=True,
    ),
    DemoJob(
        "rlhf-34b", "assistant", "chat-34b", "each worker collects garbage at its own times",
        replace(VIRTUAL, pp_size=2, vpp_size=3), [UnsynchronisedGc(0.25, 5.0)], first_host=82,
    ),
    DemoJob(
        "recsys-9b", "ranking", "recsys-9b", "nothing, one replica", replace(BASE, dp_size=1, tp_size=2),
        [], first_host=84, hours=8.0,
    ),
    DemoJob(
        "eval-7b", "research", "code-7b", "only five steps recorded", replace(BASE, pp_size=2, steps=5),
        [], first_host=86, hours=2.0,
    ),
    DemoJob(
        "nightly-1b", "infra", "smoke-1b", "18 restarts", JobShape(dp_size=4, steps=12), [],
        first_host=88, hours=1.0, fields={"restarts": 18},
    ),
    DemoJob(
        "orphan-13b", "infra", "code-13b", "no manifest", BASE, [], first_host=90, days=(1, 1),
        status=Status.NO_MANIFEST,
    ),
    DemoJob(
        "tuning-7b", "research", "code-7b", "a worker without a log", BASE, [], first_host=92, days=(2, 2),
        lost_ranks=[5],
    ),
    DemoJob(
        "draft-13b", "assistant", "draft-13b", f"one replica, a stage on {SICK_HOST}",
        replace(BASE, dp_size=1, tp_size=8), [SickHost(SICK_HOST, 1.4)], first_host=11, hours=8.0,
    ),
    DemoJob(
        "ads-3b", "ranking", "ads-3b", "slow loads on one replica",
        JobShape(dp_size=8, microbatches=6, steps=14, loads_data=True), [SlowReads(0.5, 0.1, 3)],
        first_host=94,
    ),
    DemoJob(
        "search-30b", "language", "search-30b", "A100 on two of four hosts, H100 on the others",
        JobShape(dp_size=4, pp_size=2, tp_size=4, microbatches=6, steps=14),
        [MixedTypes(TYPES, {"H100": (1.0, 1.0), "A100": (1.3, 1.35)})], first_host=96,
        fields={"gpu_type": None},
    ),
    DemoJob(
        "reason-13b", "language", "reason-13b", "a worker that is slow only in its backwards", BASE,
        [WeakGpu(2, 1, 1.4, direction="backward")], first_host=104,
    ),
    DemoJob(
        "agent-34b", "assistant", "agent-34b", f"{TIRED_HOST} slow from the middle of the run on",
        replace(BASE, tp_size=4), [SickHost(TIRED_HOST, 1.35, window=Window(DAYS * BASE.steps // 2))],
        first_host=108,
    ),
    DemoJob(
        "video-9b", "multimodal", "video-9b", "a link that becomes slow on the second day", BASE,
        [FlappingLink(1, 0.06, dp_rank=2, window=Window(BASE.steps))], first_host=118,
    ),
)  # fmt: skip


WHOLE: Final = "rlhf-7b"
ITERATIONS: Final = 12
ROLES_SEED: Final = 17
"""Seed of the first role. Jobs from this place of JOBS on have the seeds after those of the roles, so that
jobs added at the end of JOBS change no other logs."""
TRANSITION_S: Final = 0.2
ROLES: Final = {
    "rollout": (
        "a slow worker",
        JobShape(dp_size=4, microbatches=4, steps=2 * ITERATIONS),
        [WeakGpu(2, 0, 1.5)],
    ),
    "reward": ("nothing", JobShape(dp_size=2, microbatches=2, steps=ITERATIONS), []),
    "actor": ("nothing", JobShape(dp_size=2, pp_size=2, microbatches=4, steps=ITERATIONS), []),
}
"""By role, in the order in which the roles wait for each other: planted fault, layout and mechanisms."""


def planted() -> list[tuple[str, str]]:
    """Return (job_id, planted fault) of each of the demo's jobs."""
    roles = [(f"{WHOLE}-{role}", f"{what}, a role of {WHOLE}") for role, (what, *_) in ROLES.items()]
    return [(job.job_id, job.planted) for job in JOBS] + roles


def demo_whole(seed: int = 0) -> WholeSimulation:
    """Return a whole for the first day: three jobs with different roles, which wait for each other."""
    runs, names = [], list(ROLES)
    for number, (role, (_, shape, mechanisms)) in enumerate(ROLES.items()):
        fields = {**ABOUT, "team": "assistant", "model": WHOLE, "gpu_hours": shape.world_size * 24.0}
        identity = JobIdentity(f"{WHOLE}-{role}", "r1", hosts=(f"node-{100 + number:04d}",), fields=fields)
        plan = JobPlan(shape, mechanisms, seed + ROLES_SEED + number, identity, USUAL)
        before = (names[-1],) if number == 0 else ()
        steps = shape.steps // ITERATIONS
        transition_s = np.full(ITERATIONS, TRANSITION_S)
        runs.append(Run(role, plan, tuple(names[max(number - 1, 0) : number]), before, steps, transition_s))
    return WholeSimulation(WHOLE, runs)


def demo_fleet(seed: int = 0) -> Fleet:
    """Return the demo's fleet, in which each job has its own seed."""
    seeds = [number + (len(ROLES) if number >= ROLES_SEED else 0) for number in range(len(JOBS))]
    return Fleet([job.in_fleet(seed + own) for own, job in zip(seeds, JOBS, strict=True)])


def _health(log_date: date) -> Iterator[dict[str, Any]]:
    """Yield a day's health events: the sick host throttles, and another host's disk is nearly full."""
    about = {"format": HEALTH_FORMAT, "severity": HEALTH_WARNING}
    hot = {"host": SICK_HOST, "component": "gpu", "index": 3, "check": "throttle_thermal"}
    full = {"host": IDLE_HOST, "component": "disk", "check": "nearly_full"}
    for check, at, state in ((hot, "00:00", HEALTH_STARTS), (full, "11:00", HEALTH_STARTS),
                             (full, "12:00", HEALTH_ENDS), (hot, "23:59", HEALTH_ENDS)):  # fmt: skip
        yield {**about, **check, "time": f"{log_date}T{at}:00Z", "state": state}


def write_demo(landing: Path, seed: int = 0) -> Fleet:
    """Write the demo's logs into a landing folder, and damage two of them. Equal seeds give equal bytes."""
    fleet = demo_fleet(seed)
    write_fleet(landing, fleet)
    for log_date in map(fleet.log_date, range(DAYS)):
        lines = (json.dumps(each) + "\n" for each in _health(log_date))
        (landing / f"log_date={log_date}" / "health.jsonl").write_text("".join(lines))
    for job in demo_whole(seed).recorded():
        write_rank_logs(landing, fleet.log_date(0), job)
    torn = run_folder(landing, fleet.log_date(0), "gpt-70b", "r1") / "rank-00008.jsonl"
    torn.write_bytes(torn.read_bytes()[:-700])
    misspelt = run_folder(landing, fleet.log_date(1), "recsys-9b", "r1") / "rank-00002.jsonl"
    misspelt.write_text(misspelt.read_text().replace('"optimizer"', '"optimiser"', 1))
    return fleet
