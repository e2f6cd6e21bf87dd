"""A small generated fleet with known faults: three days of rank logs, for the demo and for tests.

Every job is simulated by jobs.synthetic, so that its slowdown has a cause that was put there. Hosts come back
in other jobs, and some logs are broken in ways that real ones are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from jobs.emitter.rank_log_writer import finish_day
from jobs.synthetic.identity import JobIdentity
from jobs.synthetic.job import recorded_job
from jobs.synthetic.mechanisms.data import PackedSequences
from jobs.synthetic.mechanisms.loading import SlowStorage
from jobs.synthetic.mechanisms.mechanism import Mechanism
from jobs.synthetic.mechanisms.network import FlappingLink
from jobs.synthetic.mechanisms.pauses import UnsynchronisedGc
from jobs.synthetic.mechanisms.stages import LossLayer
from jobs.synthetic.mechanisms.workers import SickHost, WeakGpu
from jobs.synthetic.nccl_inspector_files import write_inspector_logs
from jobs.synthetic.rank_log_files import write_rank_logs
from jobs.synthetic.shape import JobShape
from jobs.synthetic.simulation import JobPlan, Simulation
from jobs.synthetic.workload import Workload

FIRST_DAY: Final = date(2026, 1, 5)
DAYS: Final = 3
CLUSTER: Final = "north"
GPU_TYPE: Final = "H100"
SICK_HOST: Final = "node-0013"
"""The host that slows three jobs; the record of two tells what the third, of one replica, cannot."""
USUAL: Final = Workload(forward_s=0.04, noise=0.008)


@dataclass(frozen=True)
class FleetJob:
    """One job of the fleet.

    planted    : what was made to go wrong, in a few words
    first_host : number of its first host; a host has eight GPUs
    hours      : hours it runs each day
    days       : on which of the fleet's days, counted from 0
    fields     : further fields of its manifest
    inspected  : whether logs of NCCL Inspector lie beside its rank logs
    """

    job_id: str
    team: str
    model: str
    planted: str
    shape: JobShape
    mechanisms: Sequence[Mechanism]
    first_host: int
    hours: float = 24.0
    days: Sequence[int] = (0, 1, 2)
    compress: bool = False
    fields: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    inspected: bool = False

    def identity(self, day: int, log_date: date) -> JobIdentity:
        """Who and where the job is on one of the fleet's days."""
        hosts = -(-self.shape.world_size // 8)
        morning = datetime.combine(log_date, datetime.min.time(), UTC) + timedelta(hours=8)
        about = {"cluster": CLUSTER, "team": self.team, "model": self.model, "gpu_type": GPU_TYPE}
        return JobIdentity(
            job_id=self.job_id,
            run_id="r1",
            first_step=1000 * (day + 1),
            first_t0_us=int(morning.timestamp()) * 1_000_000,
            hosts=tuple(f"node-{self.first_host + place:04d}" for place in range(hosts)),
            fields={**about, "gpu_hours": self.shape.world_size * self.hours, **self.fields},
        )


BASE: Final = JobShape(dp_size=4, pp_size=4, microbatches=8, steps=14, batched=True)
VIRTUAL: Final = replace(BASE, vpp_size=2, noop_transfers="all", overlapped=True)
FLEET: Final = (
    FleetJob(
        "gpt-175b", "foundation", "gpt-175b", f"slow worker on {SICK_HOST}",
        replace(BASE, tp_size=8), [SickHost(SICK_HOST, 1.45)], first_host=7, inspected=True,
    ),
    FleetJob(
        "chat-70b", "assistant", "chat-70b", f"two slow workers on {SICK_HOST}",
        replace(BASE, pp_size=2, tp_size=4), [SickHost(SICK_HOST, 1.3)], first_host=10, days=(1, 2),
    ),
    FleetJob(
        "gpt-70b", "foundation", "gpt-70b", "heavy last stage",
        replace(BASE, tp_size=4), [LossLayer(0.018, 0.036)], first_host=40,
    ),
    FleetJob(
        "long-context-7b", "research", "longctx-7b", "sequences of uneven length",
        JobShape(dp_size=8, pp_size=2, cp_size=2, microbatches=8, steps=14),
        [PackedSequences(token_limit=32_768, median_tokens=3000, spread=1.3)], first_host=50,
    ),
    FleetJob(
        "vision-22b", "multimodal", "vit-22b", "slow data loading",
        JobShape(dp_size=8, microbatches=6, steps=14), [SlowStorage(0.05)], first_host=60,
    ),
    FleetJob(
        "moe-8x22b", "foundation", "moe-8x22b", "a link that flaps", VIRTUAL,
        [FlappingLink(1, 0.038, 0.25)], first_host=70,
    ),
    FleetJob(
        "speech-3b", "speech", "asr-3b", "slow worker in one step of three",
        JobShape(dp_size=16, microbatches=4, steps=14, overlapped=True),
        [WeakGpu(5, 0, 1.6, 0.35)], first_host=72, compress=True,
    ),
    FleetJob(
        "code-13b", "research", "code-13b", "nothing", replace(BASE, pp_size=2), [], first_host=80,
        hours=12.0, compress=True,
    ),
    FleetJob(
        "rlhf-34b", "assistant", "chat-34b", "each worker collects garbage when it likes",
        replace(VIRTUAL, pp_size=2, vpp_size=3), [UnsynchronisedGc(0.25, 5.0)], first_host=82,
    ),
    FleetJob(
        "recsys-9b", "ranking", "recsys-9b", "nothing, one replica", replace(BASE, dp_size=1, tp_size=2),
        [], first_host=84, hours=8.0,
    ),
    FleetJob(
        "eval-7b", "research", "code-7b", "only five steps recorded", replace(BASE, pp_size=2, steps=5),
        [], first_host=86, hours=2.0,
    ),
    FleetJob(
        "nightly-1b", "infra", "smoke-1b", "18 restarts", JobShape(dp_size=4, steps=12), [],
        first_host=88, hours=1.0, fields={"restarts": 18},
    ),
    FleetJob("orphan-13b", "infra", "code-13b", "no manifest", BASE, [], first_host=90, days=(1,)),
    FleetJob(
        "tuning-7b", "research", "code-7b", "a worker without a log", BASE, [], first_host=92, days=(2,),
    ),
    FleetJob(
        "draft-13b", "assistant", "draft-13b", f"one replica, a stage on {SICK_HOST}",
        replace(BASE, dp_size=1, tp_size=8), [SickHost(SICK_HOST, 1.4)], first_host=11, hours=8.0,
    ),
)  # fmt: skip


def write_fleet(landing: Path, seed: int = 0, days: int = DAYS) -> list[date]:
    """Write the fleet's logs into a landing folder; returns its log dates. Same seed, same bytes."""
    log_dates = [FIRST_DAY + timedelta(days=day) for day in range(days)]
    for day, log_date in enumerate(log_dates):
        for number, job in enumerate(FLEET):
            if day in job.days:
                recorded = recorded_job(Simulation(plan_of_day(job, day, seed + number)))
                folder = write_rank_logs(landing, log_date, recorded, compress=job.compress)
                if job.inspected:
                    write_inspector_logs(folder, recorded)
                _break(folder, job.job_id, day)
        finish_day(landing, log_date)
    return log_dates


def plan_of_day(job: FleetJob, day: int, seed: int) -> JobPlan:
    """All that makes one job on one of the fleet's days."""
    identity = job.identity(day, FIRST_DAY + timedelta(days=day))
    return JobPlan(job.shape, job.mechanisms, seed * 100 + day, identity, USUAL)


def _break(folder: Path, job_id: str, day: int) -> None:
    """Damage some logs as crashes and full disks do."""
    if job_id == "orphan-13b":
        (folder / "job.json").unlink()
    if job_id == "tuning-7b":
        (folder / "rank-00005.jsonl").unlink()
    if job_id == "gpt-70b" and day == 0:
        log = folder / "rank-00008.jsonl"
        log.write_bytes(log.read_bytes()[:-700])
    if job_id == "recsys-9b" and day == 1:
        log = folder / "rank-00002.jsonl"
        log.write_text(log.read_text().replace('"optimizer"', '"optimiser"', 1))
