"""Test the command changes on a warehouse of results, and the evaluation of changes."""

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from jobs.job_changes import main, none_found
from jobs.night.aggregate import changes_so_far
from jobs.warehouse.tables import Warehouse
from schemas.vocabulary import (
    CAUSES,
    JOB_CAUSES,
    JOB_CHANGES,
    JOB_SLOWDOWN,
    JOBS,
    STEP_SLOWDOWN,
    WORKER_SLOWDOWN,
)
from tests.evaluation import changes
from tests.jobs.conftest import Ask
from tests.jobs.reading.warehouses import warehouse_of
from tests.support.examples import DAY, culprit, table_rows

COLUMNS = [
    *("job_id", "since", "run_id", "until", "days_before", "days", "of", "before", "after", "change"),
    *("cause", "also"),
]
DAYS = 8
SLOW_FROM = 5
SINGLE = "diff JOB@DAY JOB@DAY compares two days"
ANYWAY = (
    f"and by more than neighbouring days usually do: a step that grows from day to day shows none; {SINGLE}"
)
EACH = "(each one run on one day)"
Row = dict[str, Any]
REPAIRED: tuple[float, ...] = (1.77, 2.00, 2.11, 1.77)
"""Step times of a job on four days [s]; its host is slow from noon of the second to the end of the third."""


def grown_slow() -> dict[str, list[Row]]:
    """Return rows of jobs llm and vision on eight days; llm is 25 % slower from the sixth day on.

    From that day on, llm also runs on another host.
    """
    rows: dict[str, list[Row]] = {name: [] for name in (JOBS, STEP_SLOWDOWN, JOB_CAUSES, WORKER_SLOWDOWN)}
    for number in range(DAYS):
        for job_id in ("llm", "vision"):
            is_slow = job_id == "llm" and number >= SLOW_FROM
            key = {"log_date": DAY + timedelta(number), "job_id": job_id, "run_id": f"r{number // SLOW_FROM}"}
            rows[JOBS].append(key)
            rows[WORKER_SLOWDOWN].append(key | {"host": "node-9" if is_slow else "node-3"})
            for step in range(10):
                step_s = (5.0 if is_slow else 4.0) * (1 + 0.001 * ((step + number) % 3))
                rows[STEP_SLOWDOWN].append(key | {"step": step, "actual_step_s": step_s})
            for cause in CAUSES:
                saved = 0.2 if is_slow and cause == "slow_worker" else 0.0
                found = {"is_cause": saved > 0, "time_saved_fraction": saved, "attributed_fraction": saved}
                rows[JOB_CAUSES].append(key | {"cause": cause} | found)
    return rows


def repaired(tables: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """Add four days of a job atlas with a slow host that is repaired, and return the tables."""
    tables[JOB_SLOWDOWN] = []
    for number, step_s in enumerate(REPAIRED):
        key = {"log_date": DAY + timedelta(number), "job_id": "atlas", "run_id": "r1"}
        lost = 1 - REPAIRED[0] / step_s
        onset: Row = {
            "course": "from",
            "first_step": 69942,
            "first_time": datetime(2026, 1, 6, 10, tzinfo=UTC),
        }
        named = culprit(0.3, host="hx-07", **(onset if number == 1 else {}))
        saved = {"lost_fraction": lost, "lost_gpu_hours": 1_000 * lost}
        saved |= {"attributed_fraction": lost, "time_saved_fraction": lost}
        tables[JOBS].append(key)
        tables[JOB_SLOWDOWN].append(key)
        tables[STEP_SLOWDOWN] += [key | {"step": step, "actual_step_s": step_s} for step in range(10)]
        tables[JOB_CAUSES].append(
            key | {"cause": "slow_worker", "is_cause": lost > 0, "culprits": [named] if lost else []} | saved
        )
    return tables


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    tables = {name: table_rows(name, each) for name, each in repaired(grown_slow()).items()}
    return warehouse_of(tmp_path_factory.mktemp("warehouse"), **tables).root


def test_changes_of_all_jobs(ask: Ask) -> None:
    status, out, _ = ask(main, "--format", "json")
    found = json.loads(out)
    assert status == 0
    assert {tuple(row) for row in found} == {tuple(COLUMNS)}
    assert {row["job_id"] for row in found} == {"llm"}
    assert [row["of"] for row in found] == ["step time", "lost", "slow_worker"]
    step = found[0]
    assert (step["since"], step["until"], step["run_id"]) == ("2026-01-10", "2026-01-12", "r1")
    assert (step["days_before"], step["days"], step["cause"]) == (5, 3, "slow_worker")
    assert step["change"] == pytest.approx(0.25, abs=0.01)
    assert step["also"] == ["run r0 -> r1", "hosts gone: node-3", "hosts new: node-9"]


def test_a_night_finds_what_the_command_finds(warehouse: str, ask: Ask) -> None:
    """A night stores the changes that the command prints, and none if there are too few earlier days."""
    stored = Warehouse(cast("SparkSession", None), warehouse)
    last = DAY + timedelta(DAYS - 1)
    rows = changes_so_far(stored, [last], 14)[JOB_CHANGES].to_pylist()
    found = json.loads(ask(main, "--format", "json").out)
    wanted = [
        {**row, "log_date": last, **{name: date.fromisoformat(row[name]) for name in ("since", "until")}}
        for row in found
    ]
    assert rows
    by_kind = {row["of"]: row for row in wanted}
    assert {row["of"]: row for row in rows} == by_kind
    assert changes_so_far(stored, [DAY + timedelta(1)], 14) == {}


def restarted() -> dict[str, list[Row]]:
    """Return rows of a job whose second run starts on its second day, and is 25 % slower."""
    rows: dict[str, list[Row]] = {name: [] for name in (JOBS, STEP_SLOWDOWN)}
    for number, run_id in ((0, "r1"), (1, "r1"), (1, "r2"), (2, "r2")):
        key = {"log_date": DAY + timedelta(number), "job_id": "llm", "run_id": run_id}
        step_s = 5.0 if run_id == "r2" else 4.0
        rows[JOBS].append(key)
        rows[STEP_SLOWDOWN] += [key | {"step": step, "actual_step_s": step_s} for step in range(10)]
    return rows


def test_a_night_finds_the_same_whether_later_days_are_there(tmp_path: Path, ask: Ask) -> None:
    """A night's changes do not depend on later days in the warehouse."""
    tables = {name: table_rows(name, each) for name, each in restarted().items()}
    days = [DAY + timedelta(number) for number in range(3)]
    until = {
        day: warehouse_of(
            tmp_path / str(day),
            **{name: rows.filter(pc.less_equal(rows["log_date"], day)) for name, rows in tables.items()},
        )
        for day in days
    }
    assert changes_so_far(until[days[0]], days[:1], 14) == {}
    by_night = [
        row for day in days[1:] for row in changes_so_far(until[day], [day], 14)[JOB_CHANGES].to_pylist()
    ]
    assert {(row["log_date"], row["since"], row["run_id"], row["days"]) for row in by_night} == {
        (days[1], days[1], "r2", 1),
        (days[2], days[1], "r2", 2),
    }
    backfilled = changes_so_far(until[days[2]], days, 14)[JOB_CHANGES].to_pylist()
    assert by_night == backfilled
    assert by_night[:1] == changes_so_far(until[days[2]], days[:2], 14)[JOB_CHANGES].to_pylist()
    shown = json.loads(
        ask(main, "--warehouse", until[days[2]].root, "--to", str(days[1]), "--format", "json").out
    )
    assert [row | {"log_date": str(days[1])} for row in shown] == json.loads(
        json.dumps(by_night[:1], default=str)
    )


def test_two_runs_of_a_day_are_two_of_what_is_counted(tmp_path: Path, ask: Ask) -> None:
    tables = {name: table_rows(name, each) for name, each in restarted().items()}
    second = DAY + timedelta(1)
    tables[JOBS] = tables[JOBS].filter(pc.less_equal(tables[JOBS]["log_date"], second)).slice(1)
    root = warehouse_of(tmp_path, **tables).root
    said = ask(main, "--warehouse", root, "--job-id", "llm").err.splitlines()
    assert said[0].startswith(
        f"no change is proven: job llm has 2 units {EACH}; steps take 4 s on {second} (r1) and 5 s on "
        f"{second} (r2), but fewer than 3 units show no change; "
    )
    assert [line.partition(":")[0] for line in said[1:]] == [f"  {second} r1", f"  {second} r2"]
    tables[JOBS] = tables[JOBS].slice(1)
    root = warehouse_of(tmp_path / "one", **tables).root
    said = ask(main, "--warehouse", root).err.splitlines()
    assert said[0].startswith("no change found: the job with most units has 1 unit (one run on one day), and")


def test_a_job_without_replayed_units_has_no_change() -> None:
    (said,) = none_found([], "later")
    assert said.startswith("no change found: job later has 0 units (each one run on one day)")


def test_rows_as_lists_have_all_columns(ask: Ask) -> None:
    status, out, err = ask(main, "--job-id", "llm", "-x")
    assert (status, out.count("\nafter "), out.count("\nalso "), err) == (0, 3, 3, "")


def test_of_one_job_and_a_period(ask: Ask) -> None:
    _, out, err = ask(main, "--job-id", "vision", "--format", "json")
    says = f"no change found: job vision has 8 units {EACH}, in which steps must differ by "
    assert out == "[]\n"
    assert err.startswith(
        f"{says}2.0 %, or losses by 3.0 % of the step, {ANYWAY}\n  2026-01-05 r0: 4 s a step"
    )
    few = [ask(main, "--job-id", "vision", "--to", f"2026-01-0{day}").err for day in (6, 7)]
    assert f"has 2 units {EACH}, and fewer than 3 show none; {SINGLE}\n  2026-01-05 r0: " in few[0]
    assert (
        f"has 3 units {EACH}, in which steps must differ by 4.6 %, or losses by 9.2 % of the step, {ANYWAY}"
        in few[1]
    )
    slow = ask(main, "--job-id", "llm", "--from", "2026-01-11").err.splitlines()
    assert slow[0].startswith(f"no change found since 2026-01-11: job llm has 8 units {EACH}, ")
    assert [line.partition(" r1: ")[0] for line in slow[6:]] == [f"  2026-01-{day}" for day in (10, 11, 12)]
    assert all(line.endswith(" s a step, 20.0 % lost to slow worker") for line in slow[6:])
    steady = ask(main, "--to", "2026-01-08").err
    assert steady.startswith(f"no change found: the job with most units has 4 units {EACH}, in ")
    assert steady.splitlines()[0].endswith(ANYWAY)
    assert "a step, " not in steady, "single days are listed only for a given job"
    assert ask(main, "--job-id", "llm", "--to", "2026-01-09", "--format", "json").out == "[]\n"
    assert len(json.loads(ask(main, "--job-id", "llm", "--from", "2026-01-07", "--format", "json").out)) == 3
    since = json.loads(ask(main, "--from", "2026-01-10", "--format", "json").out)
    assert [(row["of"], row["days_before"]) for row in since] == [
        (of, 5) for of in ("step time", "lost", "slow_worker")
    ], "days before --from are used too"
    assert ask(main, "--from", "2026-01-11", "--format", "json").out == "[]\n"
    status, out, err = ask(main, "--job-id", "lm")
    assert (status, out, err) == (2, "", "job_changes: error: no job lm: did you mean llm?\n")


def test_days_that_differ_without_a_proven_change_are_named(tmp_path: Path, ask: Ask) -> None:
    """If each of three days is a tenth slower than the one before, the output says "no change is proven"."""
    rows: dict[str, list[Row]] = {name: [] for name in (JOBS, STEP_SLOWDOWN, JOB_CAUSES, WORKER_SLOWDOWN)}
    for number, step_s in enumerate((2.1, 2.33, 2.56)):
        key = {"log_date": DAY + timedelta(number), "job_id": "llm", "run_id": "r1"}
        rows[JOBS].append(key)
        rows[STEP_SLOWDOWN] += [key | {"step": step, "actual_step_s": step_s} for step in range(10)]
    root = warehouse_of(tmp_path, **{name: table_rows(name, each) for name, each in rows.items()}).root
    said = ask(main, "--warehouse", root, "--job-id", "llm").err.splitlines()
    assert said[0] == (
        f"no change is proven: job llm has 3 units {EACH}; steps take 2.1 s on 2026-01-05 (r1) and "
        "2.56 s on 2026-01-07 (r1), but units differ by 10 % from one to the next, beside which a change in "
        f"the middle of 3 units shows only from 58 % on; more days can show it; {SINGLE}"
    )
    assert [line.partition(":")[0] for line in said[1:]] == [
        f"  2026-01-{day} r1" for day in ("05", "06", "07")
    ]
    two = ask(main, "--warehouse", root, "--job-id", "llm", "--to", "2026-01-06").err.splitlines()
    assert two[0] == (
        f"no change is proven: job llm has 2 units {EACH}; steps take 2.1 s on 2026-01-05 (r1) and "
        f"2.33 s on 2026-01-06 (r1), but fewer than 3 units show no change; more days can show it; {SINGLE}"
    )


def test_a_fault_of_days_is_named_by_the_days_on_which_its_cause_came_and_went(ask: Ask) -> None:
    onset = "since step 69942, 10:00 UTC"
    came = f"2026-01-06 new: slow worker in atlas (hx-07, {onset}) loses 115 GPU-hours (11.5 %)"
    went = "2026-01-08 gone: slow worker in atlas (hx-07) lost 161 GPU-hours (16.1 %) on 2026-01-07"
    status, out, err = ask(main, "--job-id", "atlas", "--format", "json")
    assert (status, out) == (0, "[]\n")
    assert err.splitlines()[-2:] == [went, came]
    assert ask(main, "--format", "json").err.splitlines() == [went, came], (
        "causes that came and went in atlas, with another job's changes"
    )
    assert went not in ask(main, "--to", "2026-01-07").err
    assert ask(main, "--from", "2026-01-08").err.splitlines() == [went], (
        "causes that came or went on that day"
    )


def test_the_evaluation_knows_the_day(capsys: pytest.CaptureFixture[str]) -> None:
    found = changes.meets(8018, 6, 1_500)
    assert found is not None
    assert found["true"] == pytest.approx(17, abs=0.5)
    assert found["day right"]
    assert found["cause right"]
    assert changes.main(["--jobs", "1", "--days", "3", "--seed", "8000", "--most-ops", "1500"]) == 0
    assert "1 steady jobs and as many with a fault, 3 days each" in capsys.readouterr().out
