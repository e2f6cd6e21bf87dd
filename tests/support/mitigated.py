"""Generate jobs, propose mitigations for them, and compute step times of reruns for comparison."""

from collections.abc import Sequence

from jobs.synthetic.job import GeneratedJob, recorded_job
from jobs.synthetic.mechanisms.mechanism import Mechanism
from jobs.synthetic.mechanisms.work import PackedSequences
from jobs.synthetic.shape import JobShape, Workload
from jobs.synthetic.simulation import JobPlan, Simulation
from udfs.mitigations import Mitigation, Mitigations, mitigated

SHAPE = JobShape(dp_size=4, pp_size=4, microbatches=8, steps=12, noop_transfers="all")
CALM = Workload(noise=0.002)
SEQUENCES_OF_ALL = PackedSequences(token_limit=32768, median_tokens=2000, spread=1.0)


def plan(*mechanisms: Mechanism, shape: JobShape = SHAPE) -> JobPlan:
    return JobPlan(shape, mechanisms, seed=3, workload=CALM)


def job(*mechanisms: Mechanism, shape: JobShape = SHAPE) -> GeneratedJob:
    return recorded_job(Simulation(plan(*mechanisms, shape=shape)))


def found(
    *mechanisms: Mechanism, layers: Sequence[int] | None = None, shape: JobShape = SHAPE
) -> Mitigations:
    generated = job(*mechanisms, shape=shape)
    return mitigated(generated.rank_steps, generated.manifest | {"gpu_hours": 100.0}, layers)


def answer(of: Mitigations, name: str) -> Mitigation:
    (one,) = [each for each in of.answers if each.mitigation == name]
    return one


def step_s(*mechanisms: Mechanism, shape: JobShape = SHAPE) -> float:
    simulation = Simulation(plan(*mechanisms, shape=shape))
    return float(simulation.step_us(simulation.timeline()).mean()) / 1e6
