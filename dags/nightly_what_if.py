"""# A night of the fleet: finds which training jobs straggled, and what that cost

Reads the rank logs of one day from the landing, and publishes how long each job would have taken without
stragglers.

| task | publishes |
|---|---|
| `wait_for_day` | nothing; waits for `<landing>/log_date=<day>/_SUCCESS` |
| `ingest_rank_logs` | `rank_steps`, `jobs`, `rejects`, `source_files`, `collective_arrival`, and two more |
| `simulate_what_if` | `job_slowdown` and its companions, `job_baseline`, and `job_causes` as measured |
| `revise_causes` | `job_causes`, revised by evidence from earlier days and other jobs |
| `aggregate_fleet` | `fleet_day`, `cause_day`, `host_day`, `coverage_day`, `group_day`, and more |
| `publish_night` | the reports; compares the tables with each other, writes a summary to log and XCom |

**The day** is the run's logical date (`ds`): for a scheduled run the day that has just ended (midnight
UTC). A run by hand needs a logical date: the day to analyse.

**Running a day again** is always safe. Each phase replaces the rows of its day in all of its tables at once,
so that a cleared task or a second run gives the same rows. A phase checks its rows before they become
visible. Days may run in any order, and concurrently (`airflow backfill create`). The tables and reports
become the same as in order, because the tasks after `simulate_what_if` also recompute later days that depend
on their day.

**When a task fails**, the last line of its log says why. What happens then depends on the exit status:

| exit status | meaning | then |
|---|---|---|
| 1 | another failure, such as an executor that died | two retries, after 5 and 10 minutes |
| 2 | wrong arguments or settings | fails at once; correct the settings, clear the task |
| 3 | a quality gate refused rows; the published tables are unchanged | fails at once |

`wait_for_day` looks every five minutes, holds no worker slot in between, and gives up after 20 hours. Later
days do not wait for an earlier one. In a backfill `wait_for_day` looks once, because a past day is finished
already or never will be.

If a task's process is killed, alone or with its scheduler or machine, its Spark processes end, too. The
task's next try does the work again, or the task itself once it is cleared.

**When a gate refuses rows**, the published tables stay unchanged. The refused rows are in
`<warehouse>/_refused/<phase>/<day>`. `<warehouse>/_quality/log_date=<day>` has a page for each phase with all
checks, and one for later changes of the day (`<phase>-later.html`). Correct the defect and clear the task. If
the rows are acceptable as they are, release them in the project's folder, and clear the task:

    straggler release --warehouse <warehouse> --log-date <day> --accept <table>.<expectation> ...

The page shows this command with its values (add `--settings` if the store needs a settings file). `--by` and
`--because` say who releases the rows, and why. `pipeline_runs` records both, and the released checks
(`accepted`, `accepted_by`, `accepted_because`).

**One writer at a time**: a run that writes holds the warehouse's lock, and other runs wait for the lock. So
that tasks wait without a worker slot, each task that writes takes the only slot of the pool
`what_if_writers`, which has to be created once:
`airflow pools set what_if_writers 1 "tasks that write tables"`.

**Other DAGs** can be scheduled on the assets of the published tables (`what_if_fleet_day`, ...) and on
`what_if_night`. Its events have the night's summary: units by status, rows, seconds of each phase and of its
gates, warnings, and the locations of the data docs and the report. `what_if_night_by_date` has the same
events with the log date as their partition: a DAG with a `PartitionedAssetTimetable` runs once for each date.
If an event of `what_if_landing` starts the night, all events of the night have its partition, and start only
such DAGs.

**Lineage**: if Airflow's OpenLineage provider has a transport, each task reports the tables that it read and
published, as datasets named by their paths or URLs.

## Settings
Airflow variables, or environment variables of the worker, are read when a task runs. All are optional;
relative paths start at the project's folder.

| variable | environment | without it |
|---|---|---|
| `what_if_landing` | `AIRFLOW_VAR_WHAT_IF_LANDING` | the landing in the settings |
| `what_if_warehouse` | `AIRFLOW_VAR_WHAT_IF_WAREHOUSE` | the warehouse in the settings |
| `what_if_settings` | `AIRFLOW_VAR_WHAT_IF_SETTINGS` | the project's `conf/` |
| `what_if_project` | `AIRFLOW_VAR_WHAT_IF_PROJECT` | the project that this file belongs to |
| `what_if_webhook` | `AIRFLOW_VAR_WHAT_IF_WEBHOOK` | no alert is sent |

Two more settings are read when Airflow parses this file. They are environment variables, which must be the
same for all of Airflow's processes.

| environment | effect |
|---|---|
| `WHAT_IF_SCHEDULE=landing` | an event of the asset `what_if_landing` starts the night of its partition |
| `WHAT_IF_DEADLINE_HOURS=6` | a night that is not done 6 hours after it was queued is posted (`night_late`) |

The webhook gets JSON, with `text` for people, when a task has failed and is not retried (`kind`:
`gate_refused`, `wrong_settings`, `day_not_finished`, `task_failed`), and when a night has warnings
(`night_warnings`). Warnings are about coverage that is low or fell, or about a loss of the fleet or a
slowdown of a host that rose above its past. `[watch]` in the settings has their limits.

A landing in an object store is named by its URL (`s3://bucket/landing`); to see the marker there,
`wait_for_day` needs that store's fsspec package, such as s3fs. Tasks use the Spark of the environment in
which Airflow runs. The Spark master is the host of the connection `what_if_spark` (`spark://host:7077`,
`yarn`, `k8s://...`). The connection's extra may have Spark settings, as in
`{"conf": {"spark.executor.memory": "8g"}}`. Without the connection, the worker's `SPARK_CONF_DIR` and
`SPARK_DRIVER_MEMORY` apply. Without these, Spark runs on the worker itself, with 4 GB.
"""

import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, CronDataIntervalTimetable, PartitionedAssetTimetable
from airflow.sdk.definitions.callback import SyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

sys.path.append(str(Path(__file__).resolve().parents[1]))  # Airflow itself only knows this file's folder

from dags.operators.alerts import alert_late, alert_warnings
from dags.operators.assets import FLEET, INGESTED, LANDING, NIGHT, NIGHT_BY_DATE, RESULTS, REVISED
from dags.operators.day_marker import DayMarkerSensor
from dags.operators.spark_submit import SparkSubmitOperator, of_tasks

# Read when the DAG processor parses this file, because a schedule must be known then.
STARTED_BY_LANDING = os.environ.get("WHAT_IF_SCHEDULE") == "landing"
DEADLINE_HOURS = float(os.environ.get("WHAT_IF_DEADLINE_HOURS") or 0)

LOG_DATE = "{{ dag_run.partition_key or ds | default('') }}"


def alert_deadline(context: Mapping[str, Any]) -> None:
    """Post that a night is late.

    It is defined here because Airflow looks for a deadline's callback in the DAG's own file.
    """
    alert_late(context["dag_run"], DEADLINE_HOURS)


with DAG(
    dag_id="nightly_what_if",
    description="From one day's rank logs to the cost of stragglers.",
    doc_md=__doc__,
    # The logical date is the day that has just ended; a plain "@daily" would mean the day that begins.
    schedule=PartitionedAssetTimetable(assets=LANDING)
    if STARTED_BY_LANDING
    else CronDataIntervalTimetable("@daily", timezone="UTC"),
    deadline=DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=timedelta(hours=DEADLINE_HOURS),
        callback=SyncCallback(alert_deadline),
    )
    if DEADLINE_HOURS
    else None,
    start_date=datetime(2020, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=3,  # a day whose producers are late waits beside the next ones
    tags=["what-if", "nightly", "spark"],
    default_args=of_tasks(timedelta(hours=1)),
):
    wait_for_day = DayMarkerSensor(
        task_id="wait_for_day",
        doc_md="Waits until the producers have finished the day.",
        log_date=LOG_DATE,
        poke_interval=timedelta(minutes=5),
        timeout=timedelta(hours=20),
    )
    ingest_rank_logs = SparkSubmitOperator(
        task_id="ingest_rank_logs",
        doc_md="Ingests the day: `rank_steps`, `jobs`, `rejects`, `source_files`, `collective_arrival`, "
        "`run_events`, `host_health`.",
        entry_point="ingest_rank_logs",
        inlets=[LANDING],
        outlets=INGESTED,
        execution_timeout=timedelta(hours=4),
        log_date=LOG_DATE,
    )
    simulate_what_if = SparkSubmitOperator(
        task_id="simulate_what_if",
        doc_md="Simulates each job without stragglers: `job_slowdown` and its companions.",
        entry_point="simulate_what_if",
        inlets=INGESTED,
        outlets=RESULTS,
        execution_timeout=timedelta(hours=4),
        log_date=LOG_DATE,
    )
    revise_causes = SparkSubmitOperator(
        task_id="revise_causes",
        doc_md="Revises causes by other jobs and earlier days: `job_causes` of this and of later days.",
        entry_point="revise_causes",
        inlets=RESULTS,
        outlets=REVISED,
        log_date=LOG_DATE,
    )
    aggregate_fleet = SparkSubmitOperator(
        task_id="aggregate_fleet",
        doc_md="Sums the day up by fleet, cause, host, coverage, group and op type: `fleet_day` and others.",
        entry_point="aggregate_fleet",
        inlets=[*INGESTED, *RESULTS, *REVISED],
        outlets=FLEET,
        log_date=LOG_DATE,
    )
    publish_night = SparkSubmitOperator(
        task_id="publish_night",
        doc_md="Checks the day's tables against each other and sums up the night.",
        entry_point="publish_night",
        inlets=[*INGESTED, *RESULTS, *REVISED, *FLEET],
        outlets=[NIGHT, NIGHT_BY_DATE],
        on_success_callback=alert_warnings,
        log_date=LOG_DATE,
    )
    wait_for_day >> ingest_rank_logs >> simulate_what_if >> revise_causes >> aggregate_fleet >> publish_night
