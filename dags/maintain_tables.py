"""# Upkeep of the tables: compacts small files, removes unused files and old recorded ops

Once a week, when the late data of Saturday has been looked for. Age is counted back from the run's logical
date; results, manifests and rejects never expire.

| task | does |
|---|---|
| `maintain_tables` | expires ops older than `maintenance.rank_steps_days`, compacts, deletes unused files |

A run by hand can be a dry one: its log then says what would be done.

**Again** is always safe: what needs nothing is left alone. Exit statuses mean what they mean for
`nightly_what_if`; so does the pool of writers.

## Settings
The variables of `nightly_what_if`.
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
