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
WORKERS_TYPE: Final = pa.list_(
    pa.struct(
        [TABLES[WORKER_SLOWDOWN].value_schema.field(name) for name in ("dp_rank", "pp_rank", "rank", "host")]
    )
)
RUN_TYPE: Final = pa.struct(
    [
        ("log_date", pa.date32()),
        ("job_id", pa.string()),
        ("run_id", pa.string()),
        ("dp_size", pa.int32()),
        ("ops_per_step", pa.float64()),
        ("actual_step_s", pa.float64()),
        ("ideal_step_s", pa.float64()),
        ("gpu_hours", pa.float64()),
        (
            "stages",
            pa.list_(
                pa.struct(
                    [
                        ("pp_rank", pa.int32()),
                        ("usual_compute_s", pa.float64()),
                        ("hosts", pa.list_(pa.string())),
                    ]
                )
            ),
        ),
        (
            "op_types",
            pa.list_(pa.struct([("op_type", pa.string()), ("ideal_duration_s", pa.float64())])),
        ),
    ]
)
"""A unit as history keeps it."""


def revise_column(minimum_runs: int) -> Callable[..., pa.Array]:
    """Return the function that an Arrow UDF runs: causes, workers, the unit's run, runs, slow hosts."""

    def revised(
        causes: pa.Array, workers: pa.Array, unit: pa.Array, runs: pa.Array, hosts: pa.Array
    ) -> pa.Array:
        columns = [
            column.to_pylist(maps_as_pydicts="strict") for column in (causes, workers, unit, runs, hosts)
        ]
        rows = [_revised(minimum_runs, *values) for values in zip(*columns, strict=True)]
        return pa.array(rows, type=CAUSES_TYPE)

    return revised


def _revised(
    minimum_runs: int,
    causes: list[dict[str, Any]],
    workers: list[dict[str, Any]] | None,
    unit: dict[str, Any] | None,
    runs: list[dict[str, Any]] | None,
    hosts: list[dict[str, Any]] | None,
) -> list[dict[str, Any]]:
    """Causes of one unit as Arrow takes them; as they came where nothing else is known."""
    if causes and unit is not None and workers is not None:
        about = Unit(_run(unit), unit["actual_step_s"], unit["gpu_hours"], workers)
        history = History([_run(run) for run in runs or []], _slow_hosts(hosts or []))
        causes = revise(causes, about, history, minimum_runs)
    return [_as_pairs(row) for row in causes]


def _run(row: dict[str, Any]) -> Run:
    stages = sorted(row["stages"], key=lambda stage: int(stage["pp_rank"]))
    return Run(
        dp_size=row["dp_size"],
        ops_per_step=row["ops_per_step"],
        ideal_step_s=row["ideal_step_s"],
        stages=[Stage(stage["usual_compute_s"], frozenset(stage["hosts"] or ())) for stage in stages],
        op_types_s={each["op_type"]: each["ideal_duration_s"] for each in row["op_types"]},
    )


def _slow_hosts(found: list[dict[str, Any]]) -> dict[str, SlowHost]:
    """Each host as other jobs found it: one entry per job and day."""
    return {
        host: SlowHost(
            jobs=len({each["job_id"] for each in found if each["host"] == host}),
            effect=median(each["effect"] for each in found if each["host"] == host),
        )
        for host in {each["host"] for each in found}
    }


def _as_pairs(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row with maps as lists of pairs."""
    pairs = row | {"evidence": list(row["evidence"].items())}
    before = row.get("unrevised")
    if before is not None:
        pairs["unrevised"] = before | {"evidence": list(before["evidence"].items())}
    return pairs
