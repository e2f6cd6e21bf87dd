"""# Upkeep of the tables: compacts small files, removes unused files and old recorded ops

Runs on Sundays, after the day's `refresh_changed_days`. Ages are counted back from the run's logical date.
Results, manifests and rejects never expire.

| task | does |
|---|---|
| `maintain_tables` | expires ops older than `maintenance.rank_steps_days`, compacts, deletes unused files |

A run by hand can be a dry run, which only logs what would be done.

**Running it again** is always safe: tables that need no upkeep are left unchanged. Exit statuses and the pool
of writers are those of `nightly_what_if`.

## Settings
The same variables as for `nightly_what_if`.
"""

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG, CronDataIntervalTimetable, Param

sys.path.append(str(Path(__file__).resolve().parents[1]))  # Airflow itself only knows this file's folder

from dags.operators.spark_submit import SparkSubmitOperator, of_tasks

with DAG(
    dag_id="maintain_tables",
    description="Compacts small files, removes unused files and old recorded ops.",
    doc_md=__doc__,
    schedule=CronDataIntervalTimetable("0 15 * * 0", timezone="UTC"),
    start_date=datetime(2020, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["what-if", "upkeep", "spark"],
    params={
        "dry_run": Param(
            default=False, type="boolean", title="Dry run", description="only print what would be done"
        ),
    },
    default_args=of_tasks(timedelta(hours=12)),
):
    maintain_tables = SparkSubmitOperator(
        task_id="maintain_tables",
        doc_md="Expires old recorded ops, compacts small files, deletes unused ones.",
        entry_point="maintain_tables",
        log_date="{{ (dag_run.logical_date or dag_run.run_after) | ds }}",
        arguments="{% if params.dry_run %}--dry-run{% endif %}",
    )
