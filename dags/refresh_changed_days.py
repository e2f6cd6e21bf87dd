"""# Late and corrected data: repeats days that have changed since their night

Looks at the days before the run's logical date (7, or `history.look_back_days` of the settings) for rank logs
that arrived after the night, corrected manifests and units that were removed. Exactly these units are
computed again, and the aggregates of their days. The logical date itself is left to `nightly_what_if`. A run
by hand without a logical date uses the day on which it starts.

| task | publishes |
|---|---|
| `refresh_changed_days` | the changed units' rows in all tables of the nights, and their days' aggregates |

A unit has changed if names, sizes or times of its files differ from those recorded when it was ingested
(`unit_fingerprints`). If only times differ, the contents are compared, so that a day sent twice changes
nothing. Only days with `_SUCCESS` are examined. A day that no night has processed is processed, too. Units
that only another version of the simulator or other settings would change are left to `backfill_history`.

If a gate refuses a day, the other days are still done, and then the task fails.

**Running it again** is always safe: units that are done and unchanged are skipped, and after a failure the
next run continues. Exit statuses are those of `nightly_what_if`.

## Settings
The same variables as for `nightly_what_if`.
"""

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG, CronDataIntervalTimetable

sys.path.append(str(Path(__file__).resolve().parents[1]))  # Airflow itself only knows this file's folder

from dags.operators.assets import HISTORY
from dags.operators.spark_submit import SparkSubmitOperator, of_tasks

with DAG(
    dag_id="refresh_changed_days",
    description="Late and corrected data of the last days: computed again where it changed.",
    doc_md=__doc__,
    # By noon the night of the day that has just ended should be done, and most of its late data there.
    schedule=CronDataIntervalTimetable("0 12 * * *", timezone="UTC"),
    start_date=datetime(2020, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,  # the next run would look at the same days
    tags=["what-if", "late-data", "spark"],
    default_args=of_tasks(timedelta(hours=6)),
):
    refresh_changed_days = SparkSubmitOperator(
        task_id="refresh_changed_days",
        doc_md="Finds units of the last days whose files have changed, and computes them again.",
        entry_point="refresh_changed_days",
        outlets=[HISTORY],
        log_date="{{ (dag_run.logical_date or dag_run.run_after) | ds }}",
    )
