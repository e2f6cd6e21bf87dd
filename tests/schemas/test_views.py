"""Views are found in a folder or a zip file, and return the right rows."""

import subprocess
import sys
import zipfile
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row

import schemas
from schemas.queries import QUERIES
from schemas.sql_files import VIEW_NAMES
from schemas.tables import TABLES
from schemas.views import VIEWS
from schemas.vocabulary import (
    HOST_CLOCK,
    JOB_CAUSES,
    JOB_SLOWDOWN,
    JOB_TIME,
    JOBS,
    OP_TYPE_SLOWDOWN,
    OP_TYPES,
    RANK_STEPS,
    STAGE_SLOWDOWN,
    WORKER_SLOWDOWN,
)
from tests.support.answers import Stated, answer
from tests.support.examples import DAY, NEXT_DAY, ROWS

PACKAGE = Path(schemas.__file__).parent
FEBRUARY = date(2026, 2, 1)


def view(name: str, tables: Stated) -> list[Row]:
    """Return the rows of a view over the given tables; all other tables are empty."""
    return answer(f"SELECT * FROM {name} ORDER BY 1, 2, 3", tables)


def unit(job: str, day: date, simulated_s: float, ideal_s: float, gpu_hours: float | None) -> dict[str, Any]:
    """Return columns of job_slowdown for an analysed unit with these total times."""
    slowdown = simulated_s / ideal_s
    return {
        "log_date": day,
        "job_id": job,
        "slowdown": slowdown,
        "waste_fraction": 1 - 1 / slowdown,
        "simulated_total_s": simulated_s,
        "ideal_total_s": ideal_s,
        "actual_total_s": simulated_s,
        "gpu_hours": gpu_hours,
        "wasted_gpu_hours": None if gpu_hours is None else gpu_hours * (1 - 1 / slowdown),
    }


NOT_REPLAYED = dict.fromkeys(TABLES[JOB_SLOWDOWN].column_names) | {
    "simulator_version": "1.0.0",
    "run_id": "r3",
}


def test_every_file_is_a_view_and_every_view_a_file() -> None:
    assert sorted(file.stem for file in (PACKAGE / "views").glob("*.sql")) == sorted(VIEW_NAMES)
    assert tuple(VIEWS) == VIEW_NAMES


@pytest.mark.parametrize("name", VIEW_NAMES)
def test_a_view_is_filled_in_explained_and_reads_only_what_is_made_before_it(name: str) -> None:
    found = VIEWS[name]
    assert "$" not in found.sql + found.meaning
    assert found.meaning.endswith(".")
    assert "--" not in found.sql
    made_before = {*TABLES, *VIEW_NAMES[: VIEW_NAMES.index(name)]}
    assert found.sources
    assert made_before.issuperset(found.sources)


def test_views_load_from_a_zip(tmp_path: Path) -> None:
    archive = tmp_path / "project.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for file in PACKAGE.rglob("*"):
            if file.suffix in {".py", ".sql"}:
                packed.write(file, Path("schemas") / file.relative_to(PACKAGE))
    code = "import schemas.views as v; print(v.__file__, *v.VIEWS)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(archive)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split()[1:] == list(VIEW_NAMES), done.stderr
    assert str(archive) in done.stdout


def test_ops_has_one_row_per_op_with_its_name_place_and_times() -> None:
    two_lines = [
        {},
        {"rank": 1, "op": [], "start_us": [], "duration_us": [], "microbatch": [], "model_chunk": []},
    ]
    rows = view("ops", {RANK_STEPS: two_lines})
    done = [
        (row.position, row.op_type, row.start_us, row.end_us, row.microbatch, row.model_chunk) for row in rows
    ]
    assert sorted(done) == [
        (0, "params-all-gather", 0.0, 15443.0, -1, 0),
        (1, "forward-recv", 15480.5, 15486.0, -1, 0),
        (2, "forward-compute", 15500.0, 182222.0, 0, 0),
    ]
    assert {(row.step, row.rank, row.t0_us, row.host) for row in rows} == {
        (1200, 0, 1767600000000000, "node-0123")
    }


def test_ops_names_every_op_type() -> None:
    count = len(OP_TYPES)
    numbers = {name: [1.0] * count for name in ("start_us", "duration_us")}
    integers = {name: [0] * count for name in ("microbatch", "model_chunk")}
    rows = view("ops", {RANK_STEPS: [{"op": list(range(count))} | numbers | integers]})
    assert tuple(row.op_type for row in sorted(rows, key=lambda row: row.position)) == OP_TYPES


def test_fleet_month_counts_a_run_once_and_judges_it_by_its_sums() -> None:
    # Run a has slowdowns 2.0 and 1.0 on its days, but 110/105 = 1.047 by sums, so it does not straggle.
    rows = view(
        "fleet_month",
        {
            JOB_SLOWDOWN: [
                unit("a", DAY, 10.0, 5.0, 100.0),
                unit("a", NEXT_DAY, 100.0, 100.0, 200.0),
                unit("b", DAY, 12.0, 10.0, None),
                unit("c", DAY, 90.0, 10.0, 7.0) | {"status": "too_few_steps"},
                NOT_REPLAYED | {"log_date": DAY, "job_id": "d", "status": "no_manifest", "gpu_hours": 1.0},
                unit("a", FEBRUARY, 30.0, 10.0, 10.0),
            ]
        },
    )
    january, february = rows
    assert (january.month, february.month) == (date(2026, 1, 1), FEBRUARY)
    counts = ("jobs", "replayed", "analysed", "straggling")
    assert tuple(january[name] for name in counts) == (4, 3, 2, 1)
    assert tuple(february[name] for name in counts) == (1, 1, 1, 1)
    assert january.straggling_share == 0.5
    assert (january.gpu_hours, january.analysed_gpu_hours, january.wasted_gpu_hours) == (308.0, 300.0, 50.0)
    assert january.wasted_gpu_hours_share == pytest.approx(50 / 300, rel=1e-15)
    assert january.waste_p50 == pytest.approx((5 / 110 + 2 / 12) / 2, rel=1e-14)
    assert january.waste_p99 == pytest.approx(5 / 110 + 0.99 * (2 / 12 - 5 / 110), rel=1e-14)


def test_fleet_month_of_units_without_results_has_counts_and_no_ratios() -> None:
    (month,) = view(
        "fleet_month",
        {JOB_SLOWDOWN: [NOT_REPLAYED | {"log_date": DAY, "job_id": "d", "status": "no_ops"}]},
    )
    assert (month.jobs, month.analysed, month.straggling) == (1, 0, 0)
    assert month.straggling_share is None
    assert month.gpu_hours is None
    assert month.waste_p50 is None


def test_job_history_sums_days_and_never_means_ratios() -> None:
    (run,) = view(
        "job_history",
        {
            JOB_SLOWDOWN: [
                unit("a", DAY, 10.0, 5.0, 100.0),
                unit("a", NEXT_DAY, 100.0, 100.0, 200.0) | {"status": "high_discrepancy"},
                NOT_REPLAYED | {"log_date": FEBRUARY, "job_id": "a", "status": "no_ops"},
            ],
            JOB_CAUSES: [
                {"job_id": "a", "log_date": DAY, "lost_fraction": 0.25},
                {"job_id": "a", "log_date": NEXT_DAY, "lost_fraction": None, "lost_gpu_hours": None},
            ],
        },
    )
    assert (run.first_day, run.last_day) == (DAY, FEBRUARY)
    assert (run.days, run.replayed_days, run.analysed_days, run.steps) == (3, 2, 1, 20)
    assert run.slowdown == pytest.approx(110 / 105, rel=1e-15)
    assert run.waste_fraction == pytest.approx(5 / 110, rel=1e-14)
    assert (run.launch_slowdown, run.worst_day_slowdown) == (1.0, 2.0)
    assert (run.gpu_hours, run.wasted_gpu_hours) == (300.0, 50.0)
    assert run.lost_fraction == 0.25, "only the day with a known loss counts"


def test_a_day_whose_loss_is_not_known_is_no_time_without_loss() -> None:
    tables = {
        JOB_SLOWDOWN: [unit("a", DAY, 10.0, 5.0, 100.0), unit("a", NEXT_DAY, 90.0, 45.0, 100.0)],
        JOB_CAUSES: [
            {"job_id": "a", "log_date": DAY, "lost_fraction": 0.25},
            {"job_id": "a", "log_date": NEXT_DAY, "lost_fraction": None, "lost_gpu_hours": None},
        ],
    }
    (history,) = view("job_history", tables)
    (run,) = answer(QUERIES["runs"].over(), tables)
    assert (history.lost_fraction, history.analysed_days) == (0.25, 2)
    assert history.lost_fraction == run.lost_fraction


def test_straggling_jobs_are_analysed_units_from_1_1_with_what_slows_them_most() -> None:
    rows = view(
        "straggling_jobs",
        {
            JOBS: [{"job_id": "a"}],
            JOB_SLOWDOWN: [
                unit("a", DAY, 11.0, 10.0, 1.0),
                unit("b", DAY, 10.9, 10.0, 1.0),
                unit("c", DAY, 20.0, 10.0, 1.0) | {"status": "high_discrepancy"},
                unit("e", DAY, 20.0, 10.0, 1.0) | {"run_id": "other"},
            ],
            OP_TYPE_SLOWDOWN: [
                {"job_id": "a", "op_type": "gc", "slowdown": 1.01},
                {"job_id": "a", "op_type": "optimizer", "slowdown": 1.06},
            ],
            STAGE_SLOWDOWN: [{"job_id": "a", "pp_rank": 0}, {"job_id": "a", "pp_rank": 3, "slowdown": 1.08}],
            WORKER_SLOWDOWN: [
                {"job_id": "a", "dp_rank": 1, "pp_rank": 3, "slowdown": 1.07, "host": "slow"},
                {"job_id": "a", "slowdown": 1.0},
            ],
        },
    )
    assert [row.job_id for row in rows] == ["a", "e"]
    first, second = rows
    assert (first.team, first.slowdown) == (ROWS[JOBS]["team"], 1.1)
    assert (first.slowest_op_type, first.slowest_op_type_slowdown) == ("optimizer", 1.06)
    assert (first.slowest_stage, first.slowest_stage_slowdown) == (3, 1.08)
    assert (first.slowest_worker_dp_rank, first.slowest_worker_pp_rank) == (1, 3)
    assert (first.slowest_worker_host, first.slowest_worker_slowdown) == ("slow", 1.07)
    assert (second.team, second.slowest_op_type, second.slowest_worker_host) == (None, None, None)


def test_units_slower_than_before_are_those_that_no_analysis_explains() -> None:
    slower = {"status": "high_discrepancy", "gpu_hours": 100.0, "slower_than_usual": 1.25}
    rows = view(
        "slower_than_before",
        {
            JOB_SLOWDOWN: [
                slower | {"job_id": "a"},
                slower | {"job_id": "b", "slower_than_usual": 1.05},
                slower | {"job_id": "c", "status": "analysed"},
                slower | {"job_id": "d", "slower_than_usual": None},
                slower | {"job_id": "e", "slower_than_usual": 2.0},
                slower | {"job_id": "f", "log_date": NEXT_DAY, "gpu_hours": None},
            ],
            JOB_CAUSES: [
                {"job_id": "e", "cause": cause, "is_cause": holds, "time_saved_fraction": saved}
                for cause, holds, saved in (
                    ("launch_delay", True, 0.2),
                    ("pause", True, 0.1),
                    ("slow_worker", False, 0.3),
                    ("unexplained", True, 0.4),
                )
            ],
        },
    )
    assert [(row.job_id, row.cause) for row in rows] == [("a", None), ("e", "launch_delay"), ("f", None)]
    first, second, last = rows
    assert first.usual_step_s == pytest.approx(first.actual_step_s / 1.25)
    assert (first.slower_gpu_hours, second.slower_gpu_hours) == pytest.approx((20.0, 50.0))
    assert first.day_slower_gpu_hours == second.day_slower_gpu_hours == pytest.approx(70.0)
    assert (last.slower_gpu_hours, last.day_slower_gpu_hours) == (None, None)


def test_host_recurrence_wants_several_slow_jobs_or_days() -> None:
    def worker(
        host: str | None, job: str, day: date, slowdown: float, *, is_slowest: bool = True
    ) -> dict[str, Any]:
        return {"host": host, "job_id": job, "log_date": day, "slowdown": slowdown, "is_slowest": is_slowest}

    rows = view(
        "host_recurrence",
        {
            WORKER_SLOWDOWN: [
                worker("two-jobs", "a", DAY, 1.1),
                worker("two-jobs", "b", DAY, 1.5),
                worker("two-jobs", "c", NEXT_DAY, 1.0),
                worker("two-days", "a", DAY, 1.2),
                worker("two-days", "a", NEXT_DAY, 1.3),
                worker("once", "a", DAY, 1.9),
                worker("once", "b", DAY, 1.09),
                worker("not-slowest", "a", DAY, 1.9, is_slowest=False),
                worker("not-slowest", "b", DAY, 1.9, is_slowest=False),
                worker(None, "a", DAY, 1.9),
                worker(None, "b", NEXT_DAY, 1.9),
            ]
        },
    )
    assert [row.host for row in rows] == ["two-days", "two-jobs"]
    days, jobs = rows
    assert (jobs.jobs, jobs.jobs_slow, jobs.days, jobs.days_slow) == (3, 2, 2, 1)
    assert (jobs.workers, jobs.times_slow, jobs.worker_slowdown_max) == (3, 2, 1.5)
    assert (days.first_slow, days.last_slow, days.jobs_slow, days.days_slow) == (DAY, NEXT_DAY, 1, 2)


def test_host_clocks_names_hosts_whose_clocks_were_corrected() -> None:
    def clock(host: str, job: str, day: date, offset_s: float, **more: object) -> dict[str, Any]:
        return {
            "host": host,
            "clock": host,
            "job_id": job,
            "log_date": day,
            "offset_s": offset_s,
            "largest_offset_s": offset_s,
        } | more

    rows = view(
        "host_clocks",
        {
            HOST_CLOCK: [
                clock("early", "a", DAY, -0.05, drift_ppm=0.0, jumps=1),
                clock("early", "b", NEXT_DAY, -0.03, drift_ppm=2.0, jumps=0),
                clock("ahead", "a", DAY, 0.002),
                clock("right", "a", DAY, 1e-5, error_s=1e-5),
                clock("left alone", "c", DAY, 0.0005, is_corrected=False),
            ]
        },
    )
    assert [row.host for row in rows] == ["ahead", "early"]
    early = rows[1]
    assert (early.units, early.jobs, early.days, early.jumps) == (2, 2, 2, 1)
    assert (early.first_seen, early.last_seen) == (DAY, NEXT_DAY)
    assert early.largest_offset_s == 0.05
    assert early.median_offset_s == pytest.approx(0.04)
    assert early.median_drift_ppm == 1.0


def test_effective_time_sums_before_it_divides_and_counts_what_it_does_not_know() -> None:
    units: list[dict[str, Any]] = [
        {"job_id": "a", "gpu_hours": 192.0},
        {"job_id": "a", "log_date": NEXT_DAY, "gpu_hours": 64.0},
        {"job_id": "d", "log_date": FEBRUARY, "gpu_hours": 64.0},
        {"job_id": "b", "gpu_hours": 128.0, "team": None},
        {"job_id": "c", "gpu_hours": None},
    ]
    second = {"productive_gpu_hours": 0.0, "straggling_gpu_hours": 0.0, "late_start_gpu_hours": 0.0}
    second |= {"scheduled_gpu_hours": 64.0, "unknown_gpu_hours": 31.0, "failures": 2}
    times = [{"job_id": "a"}, {"job_id": "a", "log_date": NEXT_DAY, **second}]
    tables = {JOBS: units, JOB_TIME: times}
    months = sorted(view("effective_time_month", tables), key=lambda row: (row["month"], row["team"] is None))
    named, nameless, later = months
    assert (later["month"], later["ettr"], later["scheduled_gpu_hours"]) == (FEBRUARY, None, 64.0)
    assert (named["scheduled_gpu_hours"], named["jobs"], named["units"]) == (256.0, 1, 2)
    assert (named["ettr"], named["productive_fraction"]) == (119 / 256, 96 / 256)
    assert (named["failures"], named["unknown_gpu_hours"], named["known_fraction"]) == (3, 71.0, 1 - 71 / 256)
    assert (nameless["ettr"], nameless["known_fraction"], nameless["unknown_gpu_hours"]) == (None, 0.0, 128.0)
    assert (nameless["productive_gpu_hours"], nameless["failures"]) == (None, None), (
        "null, not 0, without events"
    )
    run, *_ = view("effective_time_job", tables)
    assert (run["job_id"], run["ettr"], run["units"], run["last_day"]) == ("a", 119 / 256, 2, NEXT_DAY)
    for row in (named, nameless, run):
        hours = {name: value for name, value in row.asDict().items() if name.endswith("_gpu_hours")}
        measured, scheduled = hours.pop("measured_gpu_hours"), hours.pop("scheduled_gpu_hours")
        assert sum(value for value in hours.values() if value is not None) == scheduled, (
            "the parts add up to the scheduled hours"
        )
        assert measured == (0.0 if row is nameless else scheduled)


def test_windows_end_with_each_day_and_hold_the_days_that_there_are() -> None:
    days = [DAY + timedelta(days) for days in (0, 1, 6, 7, 29, 30)]
    units = [{"log_date": day, "job_id": str(day), "gpu_hours": 64.0} for day in days]
    times = [{"log_date": day, "job_id": str(day), "scheduled_gpu_hours": 64.0} for day in days]
    rows = view("effective_time_window", {JOBS: units, JOB_TIME: times, JOB_SLOWDOWN: units})
    found = {(row.last_day, row.window_days): (row.days, row.scheduled_gpu_hours) for row in rows}
    assert len(found) == 3 * len(days)
    assert found[days[0], 30] == (1, 64.0)
    assert [found[days[2], window] for window in (1, 7, 30)] == [(1, 64.0), (3, 192.0), (3, 192.0)]
    assert found[days[3], 7] == (3, 192.0)
    assert [found[days[4], 30][0], found[days[5], 30][0]] == [5, 5]


def test_each_definition_of_goodput_has_its_own_base() -> None:
    """Each definition of goodput divides by its own total, for example by all GPU-hours."""
    units: list[dict[str, Any]] = [{"job_id": "a"}, {"job_id": "b"}, {"job_id": "no events"}]
    units = [each | {"gpu_hours": 192.0, "world_size": 64} for each in units]
    times = [{"job_id": "a"}, {"job_id": "b", "queued_gpu_hours": None}]
    replays = [each | {"actual_step_s": 6.0} for each in units]
    tables = {JOBS: units, JOB_TIME: times, JOB_SLOWDOWN: replays}
    rows = answer(QUERIES["goodput"].over(), tables)
    found = {row["definition"]: row["fraction"] for row in rows}
    elapsed = 192 - 8 + 64
    assert found == pytest.approx(
        {
            "ettr": 119 / 192, "goodput": 119 / elapsed, "training_time_rate": 800 * 6 * 64 / 3600 / elapsed,
            "scheduling_goodput": 192 / (192 + 64), "runtime_goodput": 119 / 192, "program_goodput": 96 / 119,
            "mpg": 0.75 * 119 / 192 * 96 / 119, "productive_fraction": 0.5,
        }
    )  # fmt: skip
    assert {row["known_fraction"] for row in rows} == {2 / 3}
    (month,) = answer("SELECT * FROM effective_time_month", tables)
    same = ("ettr", "goodput", "training_time_rate", "productive_fraction")
    assert [month[name] for name in same] == pytest.approx([found[name] for name in same])
    factors = (month["scheduling_fraction"], month["program_fraction"])
    assert factors == pytest.approx((found["scheduling_goodput"], found["program_goodput"]))


def test_the_waterfall_leads_from_recorded_to_productive_by_differences() -> None:
    """In waterfall, each total equals the total before it minus the differences between the two totals."""
    job = unit("a", DAY, 100.0, 90.0, 192.0) | {"actual_total_s": 120.0}
    causes = [
        {"job_id": "a", "cause": "slow_worker", "lost_fraction": 0.2, "lost_gpu_hours": 38.4},
        {"job_id": "a", "cause": "unexplained", "lost_fraction": 0.05, "lost_gpu_hours": 9.6},
    ]
    time = {"job_id": "a", "scheduled_gpu_hours": 192.0, "unknown_gpu_hours": 48.0, "ettr": 0.5}
    unhoured = unit("b", DAY, 100.0, 90.0, None) | {"actual_total_s": 100.0}
    others = [{"job_id": "b", "cause": "pause", "lost_fraction": 0.1, "lost_gpu_hours": None}]
    tables = {JOB_SLOWDOWN: [job, unhoured], JOB_CAUSES: causes + others, JOB_TIME: [time]}
    rows = sorted(view("waterfall", tables), key=lambda row: (row.job_id, row.place))
    of_a = {row.figure: (row.is_total, row.gpu_hours, row.seconds) for row in rows if row.job_id == "a"}
    assert of_a == {
        "recorded": (True, 192.0, 120.0),
        "slow_worker": (False, pytest.approx(38.4), pytest.approx(24.0)),
        "unexplained": (False, pytest.approx(9.6), pytest.approx(6.0)),
        "nothing_lost": (True, 144.0, 90.0),
        "to_paper_ideal": (False, 0.0, 0.0),
        "ideal": (True, 144.0, 90.0),
        "outside_steps": (False, 36.0, None),
        "not_known": (False, 36.0, None),
        "productive": (True, 72.0, None),
    }
    left: float | None = None
    for is_total, hours, _ in of_a.values():
        assert not is_total or left is None or hours == pytest.approx(left), (
            "each total is the total before, less the differences between"
        )
        left = hours if is_total else left - hours
    of_b = {row.figure: (row.gpu_hours, row.seconds) for row in rows if row.job_id == "b"}
    assert (of_b["recorded"], of_b["pause"]) == ((None, 100.0), (None, pytest.approx(10.0)))
    assert of_b["productive"] == (None, None)
    summed = {row.figure: row for row in answer(QUERIES["waterfall"].over(), tables)}
    assert (summed["recorded"].job_days, summed["recorded"].seconds, summed["recorded"].gpu_hours) == (
        2,
        220.0,
        192.0,
    )
    assert summed["nothing_lost"].of_recorded == pytest.approx(0.75)
    assert summed["nothing_lost"].of_time == pytest.approx(180.0 / 220.0)
