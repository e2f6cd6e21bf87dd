"""# Runs in progress: warns of causes that begin and end, within minutes

Every ten minutes the last steps of each run in progress are simulated as in the night. The results are in
tables of their own. A cause that begins or ends is posted to the webhook once.

| task | publishes |
|---|---|
| `watch_landing` | `live_slowdown`, `live_causes` |

A round reads those of the landing's latest days (`[live]` in the settings) that have no `_SUCCESS`. Of each
run it reads the last lines of the rank logs, if all of these logs have grown. An unfinished last line is left
for the next round, and not rejected. Nights go first: while another command writes the warehouse, a round is
skipped. A round takes no slot of the writers' pool.

**Running it again** is always safe: the next round posts each warning that no round has posted. If a task is
killed after it posted a warning, and before it recorded this, the next one posts the warning again. Exit
statuses are those of `nightly_what_if`.

## Settings
The same variables as for `nightly_what_if`.
"""

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG, CronDataIntervalTimetable

sys.path.append(str(Path(__file__).resolve().parents[1]))  # Airflow itself only knows this file's folder

from dags.operators.alerts import alert_warnings
from dags.operators.spark_submit import SparkSubmitOperator, of_tasks

with DAG(
    dag_id="watch_landing",
    description="Causes that begin and end in runs in progress.",
    doc_md=__doc__,
    schedule=CronDataIntervalTimetable("*/10 * * * *", timezone="UTC"),
    start_date=datetime(2020, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,  # the next round would read the same windows
    tags=["what-if", "live", "spark"],
    default_args=of_tasks(timedelta(hours=1)),
):
    watch_landing = SparkSubmitOperator(
        task_id="watch_landing",
        doc_md="One round: the last window of each run in progress; posts what began or ended.",
        entry_point="watch_landing",
        pool="default_pool",  # a night never waits for it
        arguments="--once",
        on_success_callback=alert_warnings,
    )
