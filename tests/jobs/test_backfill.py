"""A backfill computes what is missing or changed, and skips units that are done and unchanged."""

import shutil

import pytest

from jobs.gates.checks import Check, GateRefusedError
from jobs.night import whole_night
from jobs.warehouse.tables import Warehouse
from schemas.vocabulary import (
    INGESTED_TABLES,
    JOB_CAUSES,
    JOB_SLOWDOWN,
    JOBS,
    PHASE_NAMES,
    PUBLICATIONS,
    RANK_STEPS,
    REPLAY_TABLES,
    UNIT_FINGERPRINTS,
    Phase,
)
from tests.support.history import (
    DAYS,
    JOB_IDS,
    NOTHING,
    History,
    KilledError,
    another_version,
    assert_same_tables,
    dying_at,
    history_in,
    units_of,
)

ALL = {(day.isoformat(), job) for day in DAYS for job in JOB_IDS}
FIRST = DAYS[0].isoformat()
RANGE = ["--from", DAYS[0].isoformat(), "--to", DAYS[-1].isoformat()]


def test_a_backfill_gives_the_tables_of_the_nights(filled: History, history: History) -> None:
    shutil.rmtree(history.warehouse)
    for day in DAYS:
        whole_night.run(history.spark, history.settings, [day])
    assert_same_tables(history.tables(), filled.tables())
    assert history.rows(UNIT_FINGERPRINTS) == filled.rows(UNIT_FINGERPRINTS)
    assert units_of(history.plan()) == NOTHING


def test_a_batch_is_one_commit_of_each_table(filled: History) -> None:
    """Each phase commits each table once for a batch of days; a table without rows gets no commit."""
    versions = filled.versions()
    assert versions.pop(UNIT_FINGERPRINTS) == len(PHASE_NAMES)
    assert versions.pop(JOB_CAUSES) == 2  # one commit by simulate, one by revise
    assert versions.pop(JOB_SLOWDOWN) == 2  # the same: revise adds slower_than_usual
    assert versions.pop(PUBLICATIONS) == 1 + len(PHASE_NAMES)
    assert versions == {name: int(bool(filled.rows(name))) for name in versions}
    assert {versions[name] for name in REPLAY_TABLES if name in versions} == {1}


def test_what_is_done_is_not_done_again(history: History) -> None:
    before = history.versions()
    assert history.fill() == NOTHING
    assert history.versions() == before


def test_rows_without_a_fingerprint_do_not_count_as_done(history: History) -> None:
    history.clear(UNIT_FINGERPRINTS)
    assert units_of(history.plan()) == dict.fromkeys(NOTHING, ALL)
    assert units_of(history.plan(["simulate"])) == {"simulate": set()}


def test_other_settings_redo_what_they_matter_to(history: History) -> None:
    other = history.with_settings(minimum_steps=13)
    wanted = NOTHING | dict.fromkeys(PHASE_NAMES[1:], ALL)
    assert units_of(other.plan()) == wanted
    assert units_of(other.plan(data_only=True)) == NOTHING
    assert units_of(history.with_settings(ops_together=7).plan()) == NOTHING
    before = history.tables()
    assert other.fill() == wanted
    assert {row["status"] for row in history.rows(JOB_SLOWDOWN)} == {"too_few_steps"}
    assert {row["simulation_settings"] for row in history.rows(JOB_SLOWDOWN)} != {
        row["simulation_settings"] for row in before[JOB_SLOWDOWN]
    }
    assert {name: history.rows(name) for name in INGESTED_TABLES} == {
        name: before[name] for name in INGESTED_TABLES
    }


@pytest.mark.parametrize(
    ("stage", "redone"),
    [(stage, set(PHASE_NAMES[number:])) for number, stage in enumerate(PHASE_NAMES)],
)
def test_another_version_redoes_its_phase_and_what_follows(
    history: History, monkeypatch: pytest.MonkeyPatch, stage: str, redone: set[str]
) -> None:
    another_version(monkeypatch, stage)
    assert {name for name, units in units_of(history.plan()).items() if units} == redone
    assert units_of(history.plan(data_only=True)) == NOTHING


def test_one_job_is_done_alone(history: History) -> None:
    before = history.tables()
    for day in DAYS:
        for job in JOB_IDS:
            history.put(job, day, slow=2.0)
    done = history.fill(job_ids=["beta"])
    betas = {(day.isoformat(), "beta") for day in DAYS}
    assert done == dict.fromkeys(PHASE_NAMES, ALL) | {"ingest": betas, "simulate": betas}
    slowdowns = {
        (row["log_date"].isoformat(), row["job_id"]): row["slowdown"] for row in history.rows(JOB_SLOWDOWN)
    }
    were = {(row["log_date"].isoformat(), row["job_id"]): row["slowdown"] for row in before[JOB_SLOWDOWN]}
    assert {unit for unit in ALL if slowdowns[unit] != were[unit]} == betas
    assert units_of(history.plan())["ingest"] == ALL - betas
    history.fill()
    assert_same_tables(history.tables(), from_nothing(history).tables())


def from_nothing(history: History) -> History:
    """Return the history that a backfill of the same landing makes in an empty warehouse."""
    root = history.warehouse.parent / "anew"
    anew = History(history.spark, history_in(root, history.spark, history.settings).settings)
    shutil.copytree(history.landing, anew.landing)
    anew.fill()
    return anew


@pytest.mark.parametrize("killed_at", [JOBS, UNIT_FINGERPRINTS])
def test_whatever_ends_a_backfill_the_next_one_goes_on(
    filled: History, history: History, monkeypatch: pytest.MonkeyPatch, killed_at: str
) -> None:
    """After a killed backfill, the next one redoes the changed unit, but nothing if its old logs are back."""
    mine, aside = history.folder("alpha", DAYS[0]), history.landing.parent / "kept"
    shutil.copytree(mine, aside)
    history.put("alpha", DAYS[0], slow=2.0)
    with monkeypatch.context() as patch:
        patch.setattr(Warehouse, "replace", dying_at(killed_at))
        with pytest.raises(KilledError):
            history.fill()
    assert units_of(history.plan(["ingest"])) == {"ingest": {(FIRST, "alpha")}}
    shutil.rmtree(mine)
    aside.rename(mine)
    assert units_of(history.plan()) == NOTHING
    assert_same_tables(history.tables(), filled.tables())
    assert history.rows(UNIT_FINGERPRINTS) == filled.rows(UNIT_FINGERPRINTS)


def test_what_a_gate_refuses_to_a_backfill_stays_as_it_was(
    filled: History, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise GateRefusedError([Check("jobs", "key_is_unique", 2, "(log_date, job_id, run_id) is unique")])

    history.put("alpha", DAYS[0], slow=2.0)
    with monkeypatch.context() as patch:
        patch.setattr("jobs.gates.write_audit_publish.audit", refuse)
        with pytest.raises(GateRefusedError):
            history.fill()
    assert history.tables() == filled.tables()
    assert history.rows(UNIT_FINGERPRINTS) == filled.rows(UNIT_FINGERPRINTS)


def test_a_unit_that_left_its_day_leaves_the_tables(history: History) -> None:
    shutil.rmtree(history.folder("alpha", DAYS[0]).parent)
    gone = {(FIRST, "alpha")}
    later = dict.fromkeys(PHASE_NAMES, ALL | gone)
    assert history.fill() == later | {"ingest": gone, "simulate": gone}
    assert_same_tables(history.tables(), from_nothing(history).tables())
    assert units_of(history.plan()) == NOTHING


def test_a_unit_that_left_is_not_forgotten_by_a_backfill_that_ended_early(history: History) -> None:
    shutil.rmtree(history.folder("alpha", DAYS[0]).parent)
    history.fill(["ingest"])
    assert units_of(history.plan())["simulate"] == {(FIRST, "alpha")}


def test_a_day_cleared_from_the_landing_keeps_its_results(history: History) -> None:
    before = history.tables()
    shutil.rmtree(history.folder("alpha", DAYS[0]).parents[1])
    assert history.fill() == NOTHING
    assert history.with_settings(minimum_steps=13).fill()["simulate"] == ALL
    assert {name: history.rows(name) for name in INGESTED_TABLES} == {
        name: before[name] for name in INGESTED_TABLES
    }


def test_results_stay_when_ingested_tables_are_cleared_away(history: History) -> None:
    """If rank_steps and its fingerprints are deleted, nothing is simulated again and results are kept."""
    before = history.rows(JOB_SLOWDOWN)
    history.clear(RANK_STEPS)
    history.clear(UNIT_FINGERPRINTS, {"stage": Phase.INGEST})
    found = history.with_settings(minimum_steps=13).fill(["simulate", "aggregate"])
    assert found == {"simulate": set(), "aggregate": set()}
    assert history.rows(JOB_SLOWDOWN) == before
