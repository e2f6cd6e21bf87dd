"""job_baseline: the usual times of a unit, for comparison with other units."""

from typing import Final

import pyarrow as pa

from schemas.fields import IDEAL_STEP, UNIT
from schemas.table import Column, Expectation, Table
from schemas.vocabulary import JOB_BASELINE, REPLAYED_STATUSES, UNIT_KEY

STAGES: Final = pa.list_(
    pa.struct([("pp_rank", pa.int32()), ("usual_compute_s", pa.float64()), ("hosts", pa.list_(pa.string()))])
)
OP_TYPES: Final = pa.list_(pa.struct([("op_type", pa.string()), ("ideal_duration_s", pa.float64())]))
SLOW_HOSTS: Final = pa.list_(pa.struct([("host", pa.string()), ("effect", pa.float64())]))

CLOCK_NOISE_S: Final = 0.01
"""A transfer may seem to end this long before its start; beyond that the replay takes 0. [s]"""


def _size(name: str, meaning: str) -> Column:
    return Column(name, pa.int32(), meaning, unit="count", minimum=1)


def _is_finite(name: str, bound: str = ">= 0") -> str:
    return f"coalesce({name} {bound} AND {name} < double('Infinity'), false)"


TABLE = Table(
    name=JOB_BASELINE,
    meaning=(
        "One row per replayed unit: the few numbers that judge other units of the same model and layout, and "
        "other jobs on the same hosts, when their steps cannot decide (job_causes). Its values are "
        "never revised."
    ),
    grain=UNIT_KEY,
    columns=(
        *UNIT,
        Column("status", pa.string(), "as in job_slowdown", allowed=REPLAYED_STATUSES),
        Column("model", pa.string(), "model being trained, from the manifest", nullable=True),
        Column("gpu_type", pa.string(), "from the manifest", nullable=True),
        _size("dp_size", "replicas"),
        _size("pp_size", "stages"),
        _size("cp_size", "context-parallel size"),
        _size("vpp_size", "model chunks per stage"),
        _size("world_size", "ranks of the run"),
        Column("ideal", pa.string(), "how ideal durations were chosen"),
        Column("simulator_version", pa.string(), "version of the simulator that wrote the row"),
        Column("ops_per_step", pa.float64(), "replayed ops over steps", unit="count", minimum=0),
        Column("actual_step_s", pa.float64(), "as in job_slowdown", unit="s", minimum=0),
        IDEAL_STEP,
        Column(
            "stages",
            STAGES,
            "each stage, by pp_rank. usual_compute_s: time of the computes of one of its workers in a "
            "step, median over steps, then lower median over dp ranks; hosts: of its replayed ranks, each "
            "once, null if not logged",
        ),
        Column(
            "op_types",
            OP_TYPES,
            "op types as in op_type_slowdown. ideal_duration_s: of one op, mean over stages if they "
            "differ, and over send and recv; of transfers it may be a little below 0, as clocks differ",
        ),
        Column(
            "slow_hosts",
            SLOW_HOSTS,
            "hosts of workers that the unit's steps show to be always slow, without a flag. effect: "
            "how much longer their ops take, as a share of the usual time",
        ),
    ),
    expectations=(
        Expectation("every_stage_is_there", "size(stages) = pp_size", "one entry per stage"),
        Expectation(
            "times_are_known",
            f"forall(stages, each -> {_is_finite('each.usual_compute_s')})"
            f" AND forall(op_types, each -> {_is_finite('each.ideal_duration_s', f'> -{CLOCK_NOISE_S}')})",
            "times of stages are finite and not negative, those of op types finite and above -10 ms: clocks "
            "that differ make a transfer end before it has started",
        ),
        Expectation(
            "slow_hosts_are_named",
            f"forall(slow_hosts, each -> each.host IS NOT NULL AND {_is_finite('each.effect')})",
            "slow hosts have a name and a finite effect",
        ),
    ),
)
