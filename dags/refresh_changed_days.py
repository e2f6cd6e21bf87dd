"""# Late and corrected data: repeats days that have changed since their night

Looks back over the days before its own (`history.look_back_days` of the settings, 7 as delivered) for rank
logs that arrived after the night, corrected manifests and units that were taken away, and does exactly those
units again, with the aggregates of their days. Its own day belongs to `nightly_what_if`; a run by hand
without a logical date takes the day on which it starts.

| task | publishes |
|---|---|
| `refresh_changed_days` | the changed units' rows in all tables of the nights, and their days' aggregates |

A unit has changed when names, sizes or times of its files are not those that were recorded when it was
ingested (`unit_fingerprints`); where only times differ, contents decide, so that a day sent twice changes
nothing. Only days with `_SUCCESS` are looked at. A day that no night has done is done as well. What another
version of the simulator or other settings would change is left to `backfill_history`.

A day that a gate refuses does not stop the others; the task fails once they are done.

**Again** is always safe: what is done and unchanged is skipped. After a failure the next run goes on; exit
statuses mean what they mean for `nightly_what_if`.

## Settings
The variables of `nightly_what_if`.
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
    # Noon: the night of the day that has just ended should be over, and what is late for it here.
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
