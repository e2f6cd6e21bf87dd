"""The Spark shell of the revision: columns of units with their history in, revised lists of causes out."""

from collections.abc import Callable
from statistics import median
from typing import Any, Final

import pyarrow as pa

from schemas.tables import TABLES
from schemas.vocabulary import JOB_CAUSES, WORKER_SLOWDOWN
from udfs.history import Run, SlowHost, Stage
from udfs.revise_causes import History, Unit, revise

CAUSES_TYPE: Final = pa.list_(pa.struct(list(TABLES[JOB_CAUSES].value_schema)))
_WORKER: Final = ("dp_rank", "pp_rank", "rank", "host")
WORKERS_TYPE: Final = pa.list_(
    pa.struct([TABLES[WORKER_SLOWDOWN].value_schema.field(name) for name in _WORKER])
)

Row = dict[str, Any]


def revise_column(minimum_runs: int) -> Callable[[pa.Array], pa.Array]:
    """Return the function that an Arrow UDF runs: one unit per row in, its revised causes out.

    Fields of a row: job_id, gpu_hours, causes, workers, baseline (its row of job_baseline), runs (of the same
    kind, rows of job_baseline), slow_hosts (of all jobs: job_id, host, effect).
    """

    def revised(units: pa.Array) -> pa.Array:
        rows = units.to_pylist(maps_as_pydicts="strict")
        return pa.array([_revised(row, minimum_runs) for row in rows], type=CAUSES_TYPE)

    return revised


def _revised(row: Row, minimum_runs: int) -> list[Row]:
    """Causes of one unit; as they came where it was not replayed."""
    causes: list[Row] = row["causes"]
    if causes and row["baseline"] is not None:
        run = _run(row["baseline"])
        unit = Unit(run, row["baseline"]["actual_step_s"], row["gpu_hours"], row["workers"])
        elsewhere = [each for each in row["slow_hosts"] if each["job_id"] != row["job_id"]]
        slow_hosts = _slow_hosts([each for each in elsewhere if each["host"] in run.hosts])
        history = History([_run(each) for each in row["runs"] or []], slow_hosts)
        causes = revise(causes, unit, history, minimum_runs)
    return causes


def _run(row: Row) -> Run:
    return Run(
        ops_per_step=row["ops_per_step"],
        ideal_step_s=row["ideal_step_s"],
        stages=[Stage(stage["usual_compute_s"], frozenset(stage["hosts"] or ())) for stage in row["stages"]],
        op_types_s={each["op_type"]: each["ideal_duration_s"] for each in row["op_types"]},
    )


def _slow_hosts(found: list[Row]) -> dict[str, SlowHost]:
    """Each host as other jobs found it: one entry per job and day."""
    return {
        host: SlowHost(
            jobs=len({each["job_id"] for each in found if each["host"] == host}),
            effect=median(each["effect"] for each in found if each["host"] == host),
        )
        for host in {each["host"] for each in found}
    }
