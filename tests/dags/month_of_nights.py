"""Run a month of nights by Airflow's scheduler, last day first, several at a time; then rerun some tasks.

`python -m tests.dags.month_of_nights` takes some minutes for each night on two cores. At the end, the tables
are compared with those of one backfill of the same days. `tests/jobs/test_backfill.py` shows that a backfill
gives the tables of nights in order.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final

from dags.operators.local_airflow import LocalAirflow
from dags.operators.spark_submit import POOL
from jobs import backfill
from jobs.history.plan import plan
from jobs.runtime.arguments import positive
from jobs.runtime.project import PROJECT
from jobs.runtime.session import session
from jobs.runtime.settings import load_settings
from jobs.synthetic.fleet import FIRST_DAY
from jobs.warehouse.tables import Warehouse
from tests.dags.test_dag_files import TASKS
from tests.dags.test_night import SMALL
from tests.dags.test_real_scheduler import NIGHT, create_backfill
from tests.support.commands import SHORT_LIVED
from tests.support.history import assert_same_tables, published
from tests.support.ports import free_port

CLEARED: Final = "simulate_what_if"
BOUND_S: Final = 7200
PAUSE_S: Final = 5
SETTINGS: Final = {"AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "True", "SPARK_SUBMIT_OPTS": SHORT_LIVED}


class Month:
    """The runs of the nightly DAG for some days, in the database of a local Airflow."""

    def __init__(self, airflow: LocalAirflow, days: Sequence[date]) -> None:
        self.airflow = airflow
        self.days = [day.isoformat() for day in days]
        self.most_writers = 0

    def ask(self, what: str, method: str = "GET", body: object = None) -> Any:  # noqa: ANN401  # JSON
        """Send a request about the nightly DAG to Airflow's API, and return the parsed JSON answer."""
        return self.airflow.ask(f"/api/v2/dags/{NIGHT}/{what}".rstrip("/"), method, body)

    def tasks(self) -> list[dict[str, Any]]:
        """Return all tasks of the month's nights; Airflow's API returns at most a hundred a page."""
        found: list[dict[str, Any]] = []
        while True:
            page = self.ask(f"dagRuns/~/taskInstances?limit=100&offset={len(found)}")
            found += page["task_instances"]
            if len(found) >= page["total_entries"]:
                return [each for each in found if (each["logical_date"] or "")[:10] in self.days]

    def wait(self) -> float:
        """Wait until all tasks have succeeded; return the waiting time. [s]

        Raises SystemExit if a task failed, or after BOUND_S seconds.
        """
        started, states = time.monotonic(), [""]
        while time.monotonic() < started + BOUND_S:
            tasks = self.tasks()
            states = [each["state"] for each in tasks]
            running = [each for each in tasks if each["state"] == "running"]
            self.most_writers = max(self.most_writers, sum(each["pool"] == POOL for each in running))
            if "failed" in states:
                raise SystemExit(f"failed: {[each for each in tasks if each['state'] == 'failed']}")
            if states.count("success") == len(self.days) * len(TASKS[NIGHT]):
                return time.monotonic() - started
            time.sleep(PAUSE_S)
        raise SystemExit(f"not over after {BOUND_S} s: {states}")


def measure(airflow: LocalAirflow, days: Sequence[date], at_a_time: int) -> None:
    """Run the nights, then clear and rerun one night's simulation and later phases; print the durations.

    at_a_time : how many nights may run in parallel
    """
    month = Month(airflow, days)
    create_backfill(airflow, month.days[0], month.days[-1], at_a_time)
    took_s = month.wait()
    tasks = month.tasks()
    print(f"{len(days)} nights, {at_a_time} at a time, backwards: {took_s / len(days):.0f} s a night")
    for name in TASKS[NIGHT]:
        median = statistics.median(each["duration"] for each in tasks if each["task_id"] == name)
        print(f"  {name}: {median:.1f} s, median")
    print(f"  tries: {sum(each['try_number'] for each in tasks)} of {len(tasks)} tasks")
    print(f"  writers at a time, at most: {month.most_writers}")
    middle = month.days[len(days) // 2]
    clear = {"dry_run": False, "task_ids": [CLEARED], "include_downstream": True, "only_failed": False}
    run_id = next(each["dag_run_id"] for each in tasks if each["logical_date"][:10] == middle)
    cleared = month.ask("clearTaskInstances", "POST", {**clear, "dag_run_id": run_id})
    print(f"  cleared {len(cleared['task_instances'])} tasks of {middle}: done again in {month.wait():.0f} s")


def main() -> None:
    """Generate a month of logs, run its nights by Airflow, and compare the tables with a backfill's."""
    parser = argparse.ArgumentParser(prog="tests.dags.month_of_nights", description=__doc__)
    parser.add_argument("--days", type=positive, default=28)
    parser.add_argument("--at-a-time", type=positive, default=3)
    args = parser.parse_args()
    days = [FIRST_DAY + timedelta(days=number) for number in range(args.days)]
    with tempfile.TemporaryDirectory(prefix="month-of-nights-") as folder:
        root = Path(folder)
        landing, settings = root / "landing", root / "settings.toml"
        size = ["--jobs", str(2 * args.days), "--days", str(args.days), "--most-ops", "4000"]
        command = [sys.executable, "-m", "jobs.make_fleet", "--landing", str(landing), *size]
        subprocess.run(command, check=True, cwd=PROJECT)
        settings.write_text(SMALL)
        named = {"landing": landing, "warehouse": root / "nights", "settings": settings}
        variables = {f"what_if_{name}": str(path) for name, path in named.items()}
        with LocalAirflow(root / "airflow", free_port(), variables, SETTINGS) as airflow:
            airflow.wait_for_dags(len(TASKS))
            measure(airflow, days, args.at_a_time)
        together = load_settings(str(settings), str(landing), str(root / "together"))
        with session(together, "month_of_nights") as spark:
            todo = plan(Warehouse.of(spark, together), together, days)
            backfill.run(spark, together, todo)
            expected = published(spark, root / "together")
            assert_same_tables(published(spark, root / "nights"), expected)
    rows = sum(map(len, expected.values()))
    print(f"  all {len(expected)} tables, {rows:,} rows, are those of a backfill")


if __name__ == "__main__":
    main()
