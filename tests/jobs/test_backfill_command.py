"""Test the command line of a backfill: dry runs, summaries and wrong arguments."""

import json
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest

from jobs import backfill
from jobs.emitter.rank_log_writer import finish_day
from jobs.history.fingerprints import Wanted
from jobs.history.plan import Batch, Plan, Work, rates
from jobs.runtime.settings import Settings
from jobs.warehouse.reader import TableReader
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import PHASE_NAMES, PIPELINE_RUNS, UNIT_FINGERPRINTS, Phase
from tests.support.examples import table_rows
from tests.support.history import DAYS, History

RANGE = ["--from", DAYS[0].isoformat(), "--to", DAYS[-1].isoformat()]


def test_a_dry_run_says_what_would_be_done_and_does_nothing(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    """A dry run prints the work and the time that earlier runs suggest for it, and changes nothing."""
    history.put("alpha", DAYS[-1], slow=2.0)
    runs = table_rows(PIPELINE_RUNS)
    Warehouse(history.spark, str(history.warehouse)).append(TABLES[PIPELINE_RUNS], runs)
    before = history.versions()
    summary = history.warehouse.parent / "summary.json"
    assert backfill.main([*history.arguments(), *RANGE, "--dry-run", "--summary", str(summary)]) == 0
    written = json.loads(summary.read_text())
    assert (written["days"], written["dry_run"]) == ([DAYS[-1].isoformat()], True)
    printed = capsys.readouterr().out.splitlines()
    rows = [line.split() for line in printed if line.strip().startswith("2026")]
    assert [(row[0], row[3], row[4]) for row in rows] == [
        ("2026-01-06", "ingest", "1"),
        ("2026-01-06", "simulate", "1"),
        ("2026-01-06", "revise", "2"),
        ("2026-01-06", "aggregate", "2"),
        ("2026-01-06", "publish", "2"),
    ]
    size = sum(file.stat().st_size for file in history.folder("alpha", DAYS[-1]).iterdir())
    assert float(rows[0][-1]) == pytest.approx(size / (4096 / 12.5), abs=0.1)
    assert {row[-1] for row in rows[1:]} == {"null"}
    assert printed[-1].startswith("2 jobs on 1 day to do, about ")
    assert printed[-1].endswith(" s, without simulate, revise, aggregate, publish, which no run has measured")
    assert history.versions() == before


def test_the_summary_of_a_run_has_the_speed_of_its_phases(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    history.put("alpha", DAYS[-1], slow=2.0)
    assert backfill.main([*history.arguments(), *RANGE]) == 0
    printed = capsys.readouterr()
    assert "1 of 2 days had something to do; the other was done and unchanged, or has no logs" in printed.out
    assert "left" not in printed.err  # there is no progress bar without a terminal
    (run,) = history.rows(PIPELINE_RUNS)
    work = {each["phase"]: each for each in run["phases"]}
    assert {stage: each["units"] for stage, each in work.items()} == {
        "ingest": 1,
        "simulate": 1,
        "revise": 2,
        "aggregate": 2,
    }
    mine = {"stage": "ingest", "job_id": "alpha", "log_date": DAYS[-1]}
    (stored,) = (row for row in history.rows(UNIT_FINGERPRINTS) if row | mine == row)
    assert work["ingest"]["bytes"] == stored["bytes"]
    assert work["simulate"]["ops"] == stored["ops"] > 0
    rate = rates(Warehouse(history.spark, str(history.warehouse)))
    assert rate["ingest"] == work["ingest"]["bytes"] / work["ingest"]["seconds"]
    assert rate["simulate"] == work["simulate"]["ops"] / work["simulate"]["seconds"]


def test_a_plan_counts_runs_and_shows_what_is_done_for_health_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(backfill, "rates", lambda _: dict.fromkeys(PHASE_NAMES, 1.0))
    alpha, health = Unit(DAYS[0], "alpha", "r1"), Unit.of_day(DAYS[0])
    batch = Batch(
        (DAYS[0],),
        {Phase.INGEST: frozenset({health}), Phase.SIMULATE: frozenset({alpha, health})},
        {alpha: Work(1, 10, 10), health: Work(0, 10, 0)},
    )
    wants: dict[str, Wanted] = {Phase.INGEST: None, Phase.SIMULATE: None}
    backfill.print_plan(cast("TableReader", None), Plan([batch], wants, []))
    printed = capsys.readouterr().out.splitlines()
    rows = [line.split() for line in printed if line.strip().startswith("2026")]
    assert [(row[3], row[4]) for row in rows] == [("ingest", "0"), ("simulate", "1")]
    assert printed[-1].startswith("1 job on 1 day to do")


@pytest.mark.parametrize(
    ("rate", "said"),
    [
        ({}, "1 job on 1 day to do; no run was measured here yet, so the time is not known"),
        ({Phase.INGEST: 5.0}, "1 job on 1 day to do, about 2 s, without simulate, which no run has measured"),
        ({Phase.INGEST: 5.0, Phase.SIMULATE: 1.0}, "1 job on 1 day to do, about 12 s"),
    ],
)
def test_a_time_is_estimated_from_measured_runs_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], rate: dict[str, float], said: str
) -> None:
    monkeypatch.setattr(backfill, "rates", lambda _: rate)
    alpha = Unit(DAYS[0], "alpha", "r1")
    wants: dict[str, Wanted] = {Phase.INGEST: None, Phase.SIMULATE: None}
    batch = Batch((DAYS[0],), dict.fromkeys(wants, frozenset({alpha})), {alpha: Work(1, 10, 10)})
    backfill.print_plan(cast("TableReader", None), Plan([batch], wants, []))
    assert capsys.readouterr().out.splitlines()[-1] == said
    backfill.print_plan(cast("TableReader", None), Plan([], wants, []))
    assert capsys.readouterr().out == "0 jobs on 0 days to do\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from", "2026-01-06", "--to", "2026-01-05"], "--to 2026-01-05 lies before --from 2026-01-06"),
        (
            [*RANGE, "--stages", "ingest,dream"],
            "Invalid value for '--phases' / '--stages': 'dream' is not a phase; phases are ingest",
        ),
        (
            [*RANGE, "--phases", "ingest", "--warehouse-new", "x"],
            "--phases: ingest cannot run with --warehouse-new",
        ),
        ([*RANGE, "--warehouse-new", "{warehouse}"], "--warehouse-new: {warehouse} is the warehouse itself"),
    ],
)
def test_wrong_arguments_give_one_line(
    history: History, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    warehouse = str(history.warehouse)
    wrong = [each.format(warehouse=warehouse) for each in arguments]
    assert backfill.main([*history.arguments(), *wrong]) == 2
    printed = capsys.readouterr().err.splitlines()[-1]
    assert printed.startswith("backfill: error: ")
    assert message.format(warehouse=warehouse) in printed


@pytest.mark.parametrize(
    ("days", "said"),
    [
        (2, "2 of 2 days had something to do"),
        (3, "2 of 3 days had something to do; the other was done and unchanged, or has no logs"),
        (4, "2 of 4 days had something to do; the others were done and unchanged, or have no logs"),
    ],
)
def test_the_summary_speaks_of_other_days_only_if_there_are_any(
    capsys: pytest.CaptureFixture[str], days: int, said: str
) -> None:
    asked = backfill.days_between(DAYS[0], DAYS[0] + timedelta(days - 1))
    later = asked[-1] + timedelta(1)  # a later day that depends on a given day is done too
    counts = {f"simulate.{what}": 0 for what in ("units", "bytes", "ops", "gate_us")}
    todo = Plan([Batch((*asked[:2], later), {}, {})], {}, [])
    backfill.print_summary(counts | {"simulate.us": 139_000_000}, asked, todo)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == said
    assert lines[1].endswith(" in 2 min 19 s")
    assert lines[2] == f"no report was written: `straggler report --log-date {later}` writes it"
    backfill.print_summary({}, asked, Plan([], {}, []))
    assert "report" not in capsys.readouterr().out


def test_a_period_without_logs_begins_no_warehouse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """No tables are created for a period without logs, because empty tables would look like healthy days."""
    (tmp_path / "landing" / "log_date=2025-12-01").mkdir(parents=True)
    warehouse, summary = tmp_path / "warehouse", tmp_path / "summary.json"
    places = ["--landing", str(tmp_path / "landing"), "--warehouse", str(warehouse)]
    assert backfill.main([*places, *RANGE, "--summary", str(summary)]) == 0
    assert not warehouse.exists()
    none = f"no day from {DAYS[0]} to {DAYS[-1]} has logs in {tmp_path / 'landing'}"
    said = f"{none}: the nearest days are 2025-12-01"
    assert f"{said}; no warehouse was begun in {warehouse}" in caplog.text + capsys.readouterr().err
    assert json.loads(summary.read_text())["days"] == []


def test_days_that_are_not_marked_complete_are_named(
    test_settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The first five days that lack _SUCCESS are named, and further such days are counted."""
    paths = test_settings.paths.model_copy(update={"landing": str(tmp_path)})
    days = backfill.days_between(DAYS[0], DAYS[0] + timedelta(7))
    for day in days:
        (tmp_path / f"log_date={day}").mkdir()
    finish_day(tmp_path, days[1])
    settings = test_settings.model_copy(update={"paths": paths})
    backfill.warn_not_complete(settings, days, [Phase.SIMULATE])
    assert caplog.messages == []
    backfill.warn_not_complete(settings, days, [Phase.INGEST])
    assert [line.partition(" (")[0] for line in caplog.messages] == [
        *(f"{day} is not marked complete" for day in (days[0], *days[2:6])),
        "and 2 more days are not marked complete",
    ]
