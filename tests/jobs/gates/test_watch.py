"""What a night warns of: coverage, what is lost and hosts, against settings and their past."""

from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from jobs.gates.night_summary import COUNTED, night_summary, summary_lines
from jobs.gates.watch import Notice, night_warnings
from jobs.runtime.settings import REPORT, Settings
from jobs.runtime.settings_sections import WatchSettings
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.vocabulary import FLEET_DAY, HOST_DAY, PIPELINE_RUNS, REJECTS, STATUSES
from tests.support.examples import ROWS, table_rows

DAY = date(2026, 2, 10)
BEFORE = [DAY - timedelta(days=age) for age in range(1, 8)]


def summary_of(
    notices: list[Notice],
    folder: Path | None = None,
    **of: Any,  # noqa: ANN401  # what night_summary takes
) -> Mapping[str, Any]:
    """Summary of a night in a warehouse without Spark."""
    rows = dict.fromkeys(COUNTED, 0) | of.pop("rows", {})
    warehouse = of.pop("warehouse", Warehouse(cast("SparkSession", None), "nowhere"))
    return night_summary(warehouse, DAY, notices, folder, rows, of.pop("runs", []))


class Past:
    """A warehouse whose days are written as a test says."""

    def __init__(self, warehouse: Warehouse, watch: WatchSettings) -> None:
        self.warehouse, self.watch = warehouse, watch

    def put(self, name: str, rows: list[Mapping[str, Any]]) -> None:
        self.warehouse.append(TABLES[name], table_rows(name, rows))

    def fleet(self, days: Mapping[date, Mapping[str, Any]]) -> None:
        self.put(FLEET_DAY, [{"log_date": day, **of_units(), **changes} for day, changes in days.items()])

    def hosts(self, values: Mapping[str, Mapping[date, float]]) -> None:
        of_host = [(host, day, value) for host, days in values.items() for day, value in days.items()]
        self.put(
            HOST_DAY,
            [{"log_date": day, "host": host, "worker_slowdown_max": value} for host, day, value in of_host],
        )

    def warnings(self) -> list[Notice]:
        return night_warnings(self.warehouse, self.watch, [DAY])[DAY]


def of_units(analysed: int = 8, failed: int = 0, no_ops: int = 2) -> dict[str, int]:
    counts = dict.fromkeys(STATUSES, 0) | {"analysed": analysed, "failed": failed, "no_ops": no_ops}
    return counts | {"jobs": analysed + failed + no_ops, "replayed": analysed}


@pytest.fixture
def past(spark: SparkSession, test_settings: Settings, tmp_path: Path) -> Past:
    return Past(Warehouse(spark, str(tmp_path)), test_settings.watch)


def test_a_usual_night_warns_of_nothing(past: Past) -> None:
    past.fleet({day: {} for day in (DAY, *BEFORE)})
    past.hosts({"node-1": dict.fromkeys([DAY, *BEFORE], 1.3)})
    assert past.warnings() == []


def test_a_rule_that_only_warns_covers_all_that_was_published(past: Past) -> None:
    past.fleet({DAY: {}})
    past.put(REJECTS, [{"log_date": DAY, "text": "x" * 2001}, {"log_date": BEFORE[0], "text": "y" * 2001}])
    (notice,) = past.warnings()
    assert notice.kind == "rule_broken"
    assert notice.text.startswith("2026-02-10: table rejects, expectation text_is_cut, 1 row: ")


def test_a_night_without_units_says_so(past: Past) -> None:
    assert past.warnings() == [Notice("no_units", "2026-02-10: no units at all")]


def test_coverage_below_the_setting_and_the_day_before_warns(past: Past) -> None:
    past.fleet({DAY: of_units(analysed=2, no_ops=8), BEFORE[0]: {}})
    assert past.warnings() == [
        Notice(
            "coverage_low",
            "2026-02-10: 2 of 10 units analysed (20%), less than watch.minimum_coverage, 30%",
        ),
        Notice(
            "coverage_fell",
            "2026-02-10: 2 of 10 units analysed (20%), 80% the day before, a drop of more than "
            "watch.coverage_drop, 20%",
        ),
    ]


def test_a_small_drop_of_coverage_is_no_news_and_a_unit_that_failed_is(past: Past) -> None:
    past.fleet({DAY: of_units(analysed=7, failed=1), BEFORE[0]: {}})
    assert [notice.kind for notice in past.warnings()] == ["units_failed"]


def lost(percent: float) -> dict[str, float]:
    return {"analysed_gpu_hours": 100.0, "lost_gpu_hours": percent}


@pytest.mark.parametrize(
    ("before", "today", "warns"),
    [
        ([10.0] * 7, 15.5, True),
        ([10.0] * 7, 14.5, False),  # rises by less than watch.rise
        ([2.0, 4.0, 8.0, 10.0, 12.0, 16.0, 18.0], 30.0, False),  # its past is as unruly
        ([2.0, 4.0, 8.0, 10.0, 12.0, 16.0, 18.0], 46.0, True),
        ([10.0] * 4, 90.0, False),  # too short a past
    ],
)
def test_loss_that_rises_above_its_past_warns(
    past: Past, before: list[float], today: float, warns: bool
) -> None:
    days = dict(zip(BEFORE, map(lost, before), strict=False))
    past.fleet({DAY: lost(today), **days})
    found = past.warnings()
    assert [notice.kind for notice in found] == (["loss_rose"] if warns else [])
    if warns:
        text = f"{today:.1f}% of what was analysed is lost, usually 10.0% (median of 7 days)"
        assert found[0].text == f"2026-02-10: {text}"


def test_days_that_do_not_state_their_hours_are_compared_with_none_that_do(past: Past) -> None:
    unknown = {"analysed_gpu_hours": None, "lost_gpu_hours": None}
    past.fleet({DAY: lost(90.0), **dict.fromkeys(BEFORE, unknown)})
    assert past.warnings() == []


def test_hosts_that_rise_above_their_past_warn_worst_first(past: Past) -> None:
    past.fleet({day: {} for day in (DAY, *BEFORE)})
    usual = dict.fromkeys(BEFORE, 1.01)
    past.hosts(
        {
            "always {slow}": {DAY: 1.5, **dict.fromkeys(BEFORE, 1.5)},
            "slower": {DAY: 1.2, **usual},
            "slowest <b>{0}": {DAY: 1.4, **usual},
            "steady": {DAY: 1.02, **usual},
            "new": {DAY: 1.9},
            "gone": usual,
        }
    )
    assert past.warnings() == [
        Notice(
            "host_rose",
            "2026-02-10: host slowest <b>{0} slows a job 1.400-fold, usually 1.010-fold (median of 7 days)",
        ),
        Notice(
            "host_rose",
            "2026-02-10: host slower slows a job 1.200-fold, usually 1.010-fold (median of 7 days)",
        ),
    ]


def test_many_hosts_are_counted(past: Past) -> None:
    past.fleet({day: {} for day in (DAY, *BEFORE)})
    past.hosts({f"node-{number}": {DAY: 1.4, **dict.fromkeys(BEFORE, 1.01)} for number in range(8)})
    assert past.warnings()[-1].text == "2026-02-10: and 3 more hosts"
    assert len(past.warnings()) == 6


def test_a_summary_says_the_night_in_lines(past: Past) -> None:
    past.fleet({DAY: {**of_units(), **lost(12.5), "straggling": 3}})
    notices = [Notice("host_rose", "slow")]
    summary = {**summary_of(notices, warehouse=past.warehouse, rows={FLEET_DAY: 1})}
    summary["stages"] = [
        {"stage": "simulate", "seconds": 20.0, "gate_seconds": 1.0, "expectations": 90, "released": 1}
    ]
    first, stage, rows, *rest = summary_lines(summary)
    assert first == (
        "2026-02-10: 10 units (2 no_ops, 8 analysed); 3 straggling; 0 rejects; "
        "12.5 of 100.0 GPU-hours lost (12.5%)"
    )
    assert stage == (
        "2026-02-10: simulate took 20.0 s; gates: 90 expectations checked in 1.0 s (5%), "
        "1 refusal released by hand"
    )
    assert rows.startswith("2026-02-10: rows: rank_steps 0, ")
    assert "fleet_day 1" in rows
    assert rest == [
        "warning: slow",
        f"data docs: {past.warehouse.root}/_quality/log_date=2026-02-10/publish.html",
        f'ask next: straggler query --warehouse {past.warehouse.root} "SELECT * FROM fix_first LIMIT 5"',
    ]


def test_runs_of_an_earlier_version_say_nothing_of_their_gates() -> None:
    run = dict(ROWS[PIPELINE_RUNS]) | {"log_date": DAY, "stages": [{"stage": "ingest", "seconds": 12.5}]}
    _, stage, *_ = summary_lines(summary_of([], runs=[run]))
    assert stage == "2026-02-10: ingest took 12.5 s"


def test_an_existing_report_is_named(tmp_path: Path) -> None:
    folder = tmp_path / REPORT
    report = folder / "index.html"
    assert summary_of([], folder)["report"] is None
    report.parent.mkdir(parents=True)
    report.touch()
    assert summary_lines(summary_of([], folder))[-2] == f"report: {report}"
