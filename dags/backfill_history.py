"""# Backfill: stages of the night over a range of days

Triggered by hand, with a form. Does what of the range is not done, or was done from other data, under
other settings that matter, or by another version; everything else is skipped.

| task | publishes |
|---|---|
| `backfill` | what the chosen stages publish, in blocks of days |

| field of the form | means |
|---|---|
| `first_day`, `last_day` | the range, both ends among it |
| `stages` | some of ingest, simulate, aggregate; all when empty |
| `job_ids` | only these jobs, and the aggregates of their days; all when empty |
| `warehouse_new` | results go there and the current ones stay: see `jobs/compare_versions.py` |
| `dry_run` | only says, in the log, what would be done and how long it will take |

**Again** is always safe: a backfill that was ended early, by whatever, goes on where it was. Exit statuses
mean what they mean for `nightly_what_if`. Leave out the days that a night or `refresh_changed_days` is
working on: a table has one writer per day.

## Settings
The variables of `nightly_what_if`.
"""

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG, Param

sys.path.append(str(Path(__file__).resolve().parents[1]))  # Airflow itself only knows this file's folder

from dags.operators.spark_submit import SparkSubmitOperator

ARGUMENTS = """\
--from
{{ params.first_day }}
--to
{{ params.last_day }}
{% if params.stages %}--stages
{{ params.stages | join(',') }}
{% endif %}{% for job_id in params.job_ids or [] %}--job-id
{{ job_id }}
{% endfor %}{% if params.warehouse_new %}--warehouse-new
{{ params.warehouse_new }}
{% endif %}{% if params.dry_run %}--dry-run
{% endif %}"""

with DAG(
    dag_id="backfill_history",
    description="Stages of the night over a range of days, where not done.",
    doc_md=__doc__,
    schedule=None,
    start_date=datetime(2020, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["what-if", "backfill", "spark"],
    params={
        "first_day": Param("2026-01-01", type="string", format="date"),
        "last_day": Param("2026-01-01", type="string", format="date"),
        "stages": Param([], type="array", examples=["ingest", "simulate", "aggregate"]),
        "job_ids": Param([], type="array"),
        "warehouse_new": Param("", type="string"),
        "dry_run": Param(default=False, type="boolean"),
    },
    default_args={
        "owner": "training-efficiency",
        "retries": 2,
        "retry_delay": timedelta(minutes=5),
        "retry_exponential_backoff": 2,
        "execution_timeout": timedelta(days=2),
        "max_active_tis_per_dag": 1,
    },
):
    backfill = SparkSubmitOperator(
        task_id="backfill",
        doc_md="Does the chosen stages on the chosen days, where they are not done.",
        entry_point="backfill",
        arguments=ARGUMENTS,
        project="{{ var.value.get('what_if_project', '') }}",
        landing="{{ var.value.get('what_if_landing', '') }}",
        warehouse="{{ var.value.get('what_if_warehouse', '') }}",
        settings="{{ var.value.get('what_if_settings', '') }}",
    )
