"""# Backfill: runs the phases of the night over a range of days

Triggered by hand, with a form that Airflow checks before anything starts. The chosen phases run for the units
in the range that are not done, or were done from other data, by another version, or with other settings that
change results. All other units are skipped.

| task | publishes |
|---|---|
| `backfill` | the tables of the chosen phases, in batches of days |

| field of the form | means |
|---|---|
| `first_day`, `last_day` | the range of days, both included |
| `stages` | some of ingest, simulate, revise, aggregate, publish; all when empty |
| `job_ids` | only these jobs, and the aggregates of their days; all when empty |
| `warehouse_new` | a new warehouse for the results; the current ones stay (see `jobs/compare_versions.py`) |
| `dry_run` | only logs what would be done and how long it would take |

If a gate refuses a day, the other days are still done, and then the task fails.

**Running it again** is always safe: a backfill that ended early continues where it stopped. Exit statuses and
the pool of writers are those of `nightly_what_if`: a backfill waits until no other task writes, and the next
night waits until the backfill has ended.

## Settings
The same variables as for `nightly_what_if`.
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
            description="a new warehouse for the results; the current results stay unchanged",
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
