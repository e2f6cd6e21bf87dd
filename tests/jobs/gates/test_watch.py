"""Test a night's warnings about coverage, losses and hosts, which depend on settings and earlier days."""

from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from jobs.gates import owners
from jobs.gates.slow_hosts import Slowed, slow_host_texts, slowed_by
from jobs.gates.watch import Notice, night_warnings, of_claims, of_night, risen_hosts, slower_of, slower_units
from jobs.night.publish import COUNTED, night_summary, phases_of, summary_lines
from jobs.runtime.settings import REPORT, load_settings
from jobs.warehouse.publication import publication
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import (
    FLEET_DAY,
    JOB_CAUSES,
    JOB_SLOWDOWN,
    JOBS,
    PIPELINE_RUNS,
    REJECTS,
    SOURCE_FILES,
    STATUSES,
    WORKER_SLOWDOWN,
    Phase,
    Status,
)
from tests.support.examples import ROWS, table_rows

DAY = date(2026, 2, 10)
BEFORE = [DAY - timedelta(days=age) for age in range(1, 8)]
WATCH = load_settings("base").watch
NO_SPARK = cast("SparkSession", None)
NOT_REPLAYED = {column.name: None for column in TABLES[JOB_SLOWDOWN].columns if column.nullable}
UNRULY = [2.0, 4.0, 8.0, 10.0, 12.0, 16.0, 18.0]

Figures = Mapping[str, float | None]


def of_units(analysed: int = 8, failed: int = 0, no_ops: int = 2) -> dict[str, float | None]:
    counts = dict.fromkeys(STATUSES, 0) | {"analysed": analysed, "failed": failed, "no_ops": no_ops}
    return {**counts, "jobs": analysed + failed + no_ops, "replayed": analysed}


def lost(*percents: float) -> list[Figures]:
    """Return figures of days of 100 GPU-hours each, of which these percentages are lost; latest day first."""
    return [{"analysed_gpu_hours": 100.0, "lost_gpu_hours": percent} for percent in percents]


def notices(
    days: list[Figures],
    hosts: Mapping[str, list[float | None]] | None = None,
    jobs: Mapping[str, Slowed] | None = None,
) -> list[Notice]:
    """Return the warnings of the night of DAY.

    days : figures of the fleet, latest day first
    hosts : slowdowns of each host, latest day first
    jobs : by host, the unit that the host slows
    """
    dates = [DAY, *BEFORE]
    rows = table_rows(FLEET_DAY, [of_units() | dict(figures) for figures in days]).to_pylist()
    slowdowns: dict[date, list[tuple[str, date, float | None]]] = {day: [] for day in dates}
    for host, values in (hosts or {}).items():
        for day, value in zip(dates, values, strict=False):
            slowdowns[day] += [(host, day, value)] if value is not None else []
    fleet = dict(zip(dates, rows, strict=False))
    risen = risen_hosts(fleet, slowdowns, WATCH, DAY)
    slowed = {host: (jobs or {}).get(host, Slowed(f"of {host}", "r1", "slow_worker")) for host, *_ in risen}
    of_hosts = [Notice("host_rose", text) for text in slow_host_texts(DAY, risen, slowed)]
    return of_night(fleet, WATCH, DAY) + of_hosts


OF_10 = "2026-02-10: 2 of 10 units analysed (20%), "


@pytest.mark.parametrize(
    ("days", "texts"),
    [
        ([], {"no_units": "2026-02-10: no units at all"}),
        ([{}] * 8, {}),
        (
            [of_units(analysed=2, no_ops=8), {}],
            {
                "coverage_low": f"{OF_10}less than watch.minimum_coverage, 30%",
                "coverage_fell": f"{OF_10}80% the day before, a drop of more than watch.coverage_drop, 20%",
            },
        ),
        (
            [of_units(analysed=7, failed=1), {}],
            {
                "units_failed": "2026-02-10: 1 unit failed, by a defect of this software or for lack "
                "of memory: "
                "see failure_traceback in job_slowdown"
            },
        ),
    ],
)
def test_coverage_and_failures(days: list[Figures], texts: dict[str, str]) -> None:
    assert dict(notices(days)) == texts


@pytest.mark.parametrize(
    ("before", "today", "warns"),
    [
        (lost(*[10.0] * 7), 15.5, True),
        (lost(*[10.0] * 7), 14.5, False),  # rises by less than watch.rise
        (lost(*UNRULY), 30.0, False),  # earlier days vary as much
        (lost(*UNRULY), 46.0, True),
        (lost(*[10.0] * 4), 90.0, False),  # too few earlier days
        (
            [{"analysed_gpu_hours": None, "lost_gpu_hours": None}] * 7,
            90.0,
            False,
        ),  # no GPU-hours on earlier days
    ],
)
def test_loss_that_rises_above_its_past_warns(before: list[Figures], today: float, warns: bool) -> None:
    text = f"{today:.1f}% of what was analysed is lost, usually 10.0% (median of 7 days)"
    wanted = [Notice("loss_rose", f"2026-02-10: {text}")] if warns else []
    assert notices([*lost(today), *before]) == wanted


def test_hosts_that_rise_above_their_past_warn_worst_first() -> None:
    usual: list[float | None] = [1.01] * 7
    found = notices(
        [{}] * 8,
        {
            "always {slow}": [1.5] * 8,
            "slower": [1.2, *usual],
            "slowest <b>{0}": [1.4, *usual],
            "steady": [1.02, *usual],
            "new": [1.9],
            "gone": [None, *usual],
        },
    )
    text = (
        "2026-02-10: job of {0}, run r1 (slow_worker): host {0} slows it {1}-fold, usually 1.010-fold "
        "(median of 7 days)"
    )
    named = (("slowest <b>{0}", "1.400"), ("slower", "1.200"))
    assert found == [Notice("host_rose", text.format(*each)) for each in named]
    many = notices([{}] * 8, {f"node-{number}": [1.4, *usual] for number in range(8)})
    assert (len(many), many[-1].text) == (6, "2026-02-10: and hosts of 3 more jobs")
    many = notices([{}] * 8, {f"node-{number}": [1.4, *usual] for number in range(6)})
    assert (len(many), many[-1].text) == (6, "2026-02-10: and hosts of 1 more job")


def test_hosts_of_one_slow_job_are_one_warning_by_its_cause() -> None:
    hosts: dict[str, list[float | None]] = {f"node-{n:02d}": [1.2 - n / 1000, *[1.01] * 7] for n in range(61)}
    ours = dict.fromkeys(hosts, Slowed("big", "r1", "stage_imbalance"))
    ours["node-07"] = Slowed("small", "r2", None)
    big, small = (each.text for each in notices([{}] * 8, hosts, ours))
    assert big == (
        "2026-02-10: job big, run r1 (stage_imbalance): hosts node-00, node-01, node-02 and 57 more slow it "
        "1.200-fold or less, usually 1.010-fold (median of 7 days)"
    )
    assert small.startswith(
        "2026-02-10: job small, run r2 (no cause holds): host node-07 slows it 1.193-fold"
    )


def test_a_host_is_said_by_the_run_that_it_slows_most(tmp_path: Path) -> None:
    warehouse = Warehouse(NO_SPARK, str(tmp_path))
    rows = [("a", "small", 1.1), ("a", "big", 1.4), ("b", "big", 1.2), ("c", "other", 1.9)]
    workers = [
        {"log_date": DAY, "host": host, "job_id": job, "slowdown": slowdown, "dp_rank": place}
        for place, (host, job, slowdown) in enumerate(rows)
    ]
    warehouse.append(TABLES[WORKER_SLOWDOWN], table_rows(WORKER_SLOWDOWN, workers))
    named = (("pause", True, 0.1), ("slow_worker", True, 0.2), ("data_imbalance", False, 0.3))
    causes = [
        {"log_date": DAY, "job_id": "big", "cause": cause, "is_cause": holds, "time_saved_fraction": saved}
        for cause, holds, saved in named
    ]
    warehouse.append(TABLES[JOB_CAUSES], table_rows(JOB_CAUSES, causes))
    big = Slowed("big", "r3", "slow_worker")
    assert slowed_by(warehouse, DAY, ["a", "b"]) == {"a": big, "b": big}
    assert slowed_by(warehouse, DAY, ["c"]) == {"c": Slowed("other", "r3", None)}


def test_units_slower_than_before_are_named_unless_they_are_analysed() -> None:
    usual = {"log_date": DAY, "run_id": "r1", "status": "high_discrepancy", "slower_than_usual": 1.2}
    rows = [
        usual | {"job_id": job, "slower_than_usual": 1.2 + 0.1 * place} for place, job in enumerate("abcdefg")
    ]
    others = [
        usual | {"job_id": "h", "status": "analysed"},
        usual | {"job_id": "i", "slower_than_usual": None},
        usual | {"job_id": "j", "slower_than_usual": 1.05},
    ]
    slower = slower_of([*rows, *others])
    found = slower_units(slower, {Unit(DAY, "f", "r1"): "launch_delay"})
    assert list(found) == [DAY]
    assert [each.kind for each in found[DAY]] == ["slower_than_before"] * 6
    assert (
        "job g, run r1, takes 1.80 times as long as before, and no cause is known (high_"
        in found[DAY][0].text
    )
    assert "1.70 times as long as before, and its largest cause is late starts" in found[DAY][1].text
    assert found[DAY][-1].text.endswith("and 2 more units")


def test_what_was_published_is_compared_and_checked_by_rules_that_only_warn(
    spark: SparkSession, tmp_path: Path
) -> None:
    warehouse = Warehouse(spark, str(tmp_path))
    of_fleet = {"log_date": DAY} | of_units(analysed=2, no_ops=8)
    warehouse.append(TABLES[FLEET_DAY], table_rows(FLEET_DAY, [of_fleet]))
    rejects = [{"log_date": day, "text": "x" * 2001} for day in (DAY, BEFORE[0])]
    warehouse.append(TABLES[REJECTS], table_rows(REJECTS, rejects))
    low, broken = night_warnings(warehouse, WATCH, [DAY])[DAY]
    assert (low.kind, broken.kind) == ("coverage_low", "rule_broken")
    assert broken.text.startswith("2026-02-10: table rejects, expectation text_is_cut, 1 row: ")


def summary_of(
    warehouse: Warehouse, found: list[Notice], folder: Path | None = None, **run: object
) -> dict[str, Any]:
    """Return the summary of the night of DAY, made without Spark.

    run : fields of the night's row in pipeline_runs; without any, there is no row
    """
    runs = [dict(ROWS[PIPELINE_RUNS]) | {"log_date": DAY} | run] if run else []
    rows = dict.fromkeys(COUNTED, 0) | {FLEET_DAY: 1}
    return night_summary(warehouse, DAY, found, folder, rows, phases_of(runs, DAY))


def test_a_summary_says_the_night_in_lines(tmp_path: Path) -> None:
    warehouse = Warehouse(NO_SPARK, str(tmp_path))
    (loss,) = lost(12.5)
    row = {"log_date": DAY, "straggling": 3} | of_units() | dict(loss)
    warehouse.append(TABLES[FLEET_DAY], table_rows(FLEET_DAY, [row]))
    work = {"stage": "simulate", "seconds": 20.0, "gate_seconds": 1.0, "expectations": 90, "released": 1}
    before = {"stage": "ingest", "seconds": 12.5}  # earlier versions recorded no work of gates
    summary = summary_of(warehouse, [Notice("host_rose", "slow")], stages=[before, work])
    leads = {"drain": ["drain node-07"], "changes": ["new: pause in a"]}
    leads["not_analysed"] = ["not analysed: job b"]
    changed, drain, first, why, ingest, simulate, rows, *rest = summary_lines(summary | leads)
    assert why == "2026-02-10: not analysed: job b"
    assert (changed, drain) == ("2026-02-10: new: pause in a", "2026-02-10: drain node-07")
    assert first == (
        "2026-02-10: 10 units (2 no_ops, 8 analysed); 3 straggling; 0 rejects; "
        "12.5 of 100.0 GPU-hours lost (12.5%)"
    )
    assert ingest == "2026-02-10: ingest took 12.5 s"
    assert simulate == (
        "2026-02-10: simulate took 20.0 s; gates: 90 expectations checked in 1.0 s (5%), "
        "1 refusal released by hand"
    )
    assert rows.startswith("2026-02-10: rows: rank_steps 0, ")
    assert "fleet_day 1" in rows
    assert rest == [
        "warning: slow",
        f"data docs: {tmp_path}/_quality/log_date=2026-02-10/publish.html",
        f'ask next: straggler query --warehouse {tmp_path} "SELECT * FROM fix_first LIMIT 5"',
    ]
    report = tmp_path / REPORT / "index.html"
    assert summary_of(warehouse, [], report.parent)["report"] is None
    report.parent.mkdir()
    report.touch()
    assert summary_lines(summary_of(warehouse, [], report.parent))[-2] == f"report: {report}"


def test_what_is_not_believed_and_what_a_manifest_leaves_out_is_named() -> None:
    """A night names a unit that claims a billion GPU-hours, and one whose manifest states 99 restarts."""
    claim = {"refused_claims": ["gpu_hours is 1e+09"], "job_id": "greedy", "log_date": DAY}
    restarts = {"status": "too_many_restarts", "status_detail": "99 restarts, more than 15", "log_date": DAY}
    found = of_claims(table_rows(JOBS, [{}, claim]), table_rows(JOB_SLOWDOWN, [{}, NOT_REPLAYED | restarts]))
    run_id = ROWS[JOBS]["run_id"]
    assert found == {
        DAY: [
            Notice(
                "claim_refused",
                f"{DAY}: job greedy, run {run_id} states what is not believed: gpu_hours is 1e+09",
            ),
            Notice(
                "left_out_by_manifest",
                f"{DAY}: job gpt-175b, run {run_id} is excluded from the figures by its manifest: "
                "99 restarts, more than 15",
            ),
        ]
    }


def test_units_with_lines_of_other_days_are_named() -> None:
    elsewhere = {"job_id": "misfiled", "log_date": DAY, "other_day_lines": 1280}
    found = of_claims(table_rows(JOBS, [{}]), table_rows(JOB_SLOWDOWN, [{}, elsewhere]))
    run_id = ROWS[JOBS]["run_id"]
    text = (
        f"{DAY}: job misfiled, run {run_id} may be in the folder of a wrong day: lines with times of other "
        "days: 1,280 (left out, unless all lines are)"
    )
    assert found == {DAY: [Notice("lines_of_other_days", text)]}


def test_lines_in_another_unit_are_not_of_a_wrong_folder() -> None:
    wrong = {"status": Status.IMPLAUSIBLE_TIMES, "log_date": DAY, "other_day_lines": 1280}
    assert of_claims(table_rows(JOBS, [{}]), table_rows(JOB_SLOWDOWN, [NOT_REPLAYED | wrong])) == {}


def test_only_the_first_units_are_named() -> None:
    many = [{"refused_claims": ["too much"], "job_id": f"job {n}", "log_date": DAY} for n in range(7)]
    found = of_claims(table_rows(JOBS, many), table_rows(JOB_SLOWDOWN, [{}]))[DAY]
    assert (len(found), found[-1].text) == (6, f"{DAY}: and 2 more units")


def test_units_whose_logs_changed_their_owner_with_the_last_ingest_are_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = Warehouse(spark, str(tmp_path))

    def ingest(users: Mapping[str, int]) -> None:
        rows = [{"log_date": DAY, "job_id": name, "owner_uid": uid} for name, uid in users.items()]
        with publication(warehouse, Phase.INGEST, [DAY], [SOURCE_FILES]):
            warehouse.replace(TABLES[SOURCE_FILES], table_rows(SOURCE_FILES, rows), [DAY])

    def named() -> list[str]:
        found = night_warnings(Warehouse(spark, str(tmp_path)), WATCH, [DAY])[DAY]
        return [each.text for each in found if each.kind == "owner_changed"]

    jobs = [f"job-{number}" for number in range(7)]
    ingest(dict.fromkeys(jobs, 1000))
    assert named() == []
    ingest(dict.fromkeys(jobs, 1001) | {"job-0": 1000})
    with publication(warehouse, Phase.SIMULATE, [DAY], []):
        pass
    run_id = ROWS[SOURCE_FILES]["run_id"]
    of = "its logs are of user 1001, those read before were of user 1000"
    wanted = [f"{DAY}: job {name}, run {run_id}: {of}" for name in jobs[1:6]]
    assert named() == [*wanted, f"{DAY}: and 1 more unit"]
    with monkeypatch.context() as later:
        later.setattr(owners, "_KEPT", timedelta(0))  # as if VACUUM had deleted the earlier version's files
        assert named() == []
    ingest(dict.fromkeys(jobs, 1001) | {"job-0": 1000})
    assert named() == []
