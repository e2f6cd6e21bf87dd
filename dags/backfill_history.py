"""# Backfill: runs the phases of the night over a range of days

Triggered by hand, with a form that is checked before anything starts. Does what of the range is not done,
or was done from other data, under other settings that matter, or by another version; everything else is
skipped.

| task | publishes |
|---|---|
| `backfill` | what the chosen phases publish, in batches of days |

| field of the form | means |
|---|---|
| `first_day`, `last_day` | the range, both ends among it |
| `stages` | some of ingest, simulate, revise, aggregate, publish; all when empty |
| `job_ids` | only these jobs, and the aggregates of their days; all when empty |
| `warehouse_new` | results go there and the current ones stay: see `jobs/compare_versions.py` |
| `dry_run` | only says, in the log, what would be done and how long it will take |

A day that a gate refuses does not stop the others; the task fails once they are done.

**Again** is always safe: a backfill that was ended early, by whatever, goes on where it was. Exit statuses
mean what they mean for `nightly_what_if`, and so does the pool of writers: a backfill waits for the task
that writes, and the next night waits for it.

## Settings
The variables of `nightly_what_if`.
"""

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG, Param

sys.path.append(str(Path(__file__).resolve().parents[1]))  # Airflow itself only knows this file's folder

from dags.operators.assets import HISTORY
from dags.operators.spark_submit import SparkSubmitOperator, of_tasks
from schemas.vocabulary import PHASE_NAMES

ARGUMENTS = """\
--from
{{ params.first_day }}
--to
{{ params.last_day }}
{% if params.stages %}--phases
{{ params.stages | join(',') }}
{% endif %}{% for job_id in params.job_ids or [] %}--job-id={{ job_id }}
{% endfor %}{% if params.warehouse_new %}--warehouse-new={{ params.warehouse_new }}
{% endif %}{% if params.dry_run %}--dry-run
{% endif %}"""

LINE = r"^[^\r\n]+$"
LINE_OR_NOTHING = r"^[^\r\n]*$"

with DAG(
    dag_id="backfill_history",
    description="Phases of the night over a range of days, where not yet done.",
    doc_md=__doc__,
    schedule=None,
    start_date=datetime(2020, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["what-if", "backfill", "spark"],
    params={
        "first_day": Param(type="string", format="date", title="First day"),
        "last_day": Param(
            type="string", format="date", title="Last day", description="not before the first day"
        ),
        "stages": Param(
            [],
            type="array",
            items={"type": "string", "enum": list(PHASE_NAMES)},
            examples=list(PHASE_NAMES),
            title="Phases",
            description="all when empty",
        ),
        "job_ids": Param(
            [],
            type="array",
            items={"type": "string", "pattern": LINE},
            title="Jobs",
            description="one per line; all when empty",
        ),
        "warehouse_new": Param(
            "",
            type="string",
            pattern=LINE_OR_NOTHING,
            title="New warehouse",
            description="results go there; the current ones stay",
        ),
        "dry_run": Param(
            default=False, type="boolean", title="Dry run", description="only print what would be done"
        ),
    },
    default_args=of_tasks(timedelta(days=2)),
):
    backfill = SparkSubmitOperator(
        task_id="backfill",
        doc_md="Runs the chosen phases on the chosen days, where they are not done.",
        entry_point="backfill",
        outlets=[HISTORY],
        arguments=ARGUMENTS,
    )
