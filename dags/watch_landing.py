"""# Runs in progress: warns of causes that begin and end, within minutes

Every ten minutes the last steps of each run in progress are simulated as the night does it. What was found
is in tables of its own, and a cause that begins or ends is posted to the webhook, once.

| task | publishes |
|---|---|
| `watch_landing` | `live_slowdown`, `live_causes` |

Of the landing's latest days those without `_SUCCESS` are looked at (`[live]` in the settings); of a run, the
last lines of rank logs that have all grown. An unfinished last line waits, and is not rejected. Nights go
first: a round is left out while another command writes the warehouse, and takes no slot of the writers' pool.

**Again** is always safe: what no round warned of, the next one does. A task killed in the instant between a
warning and the note of it repeats that warning. Exit statuses mean what they mean for
`nightly_what_if`.

## Settings
The variables of `nightly_what_if`.
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
