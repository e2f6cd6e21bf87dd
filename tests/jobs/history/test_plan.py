"""Test plans: which units of which days each phase computes again, in which batches; without Spark."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date, timedelta
from typing import cast

import pytest

from jobs.history.fingerprints import File, Recorded, contents_of, of_units, wanted
from jobs.history.phases import PHASES, phase_before
from jobs.history.plan import Work, batches_of, plan, seconds_for
from jobs.history.records import LandingChanges, Records, looked_back_on
from jobs.landing.accounts import FileAccount, UnitAccount
from jobs.landing.files import LandedFile
from jobs.runtime.settings import Settings, load_settings
from jobs.runtime.settings_sections import HistorySettings
from jobs.warehouse.reader import TableReader
from schemas.unit import Unit
from schemas.vocabulary import PHASE_NAMES

FIRST = date(2026, 1, 1)
DAYS = [FIRST + timedelta(days=age) for age in range(50)]
LIMITS = HistorySettings(look_back_days=7, block_days=3, block_bytes=1000)
WANT = ("{}", "1")
SETTINGS = load_settings("base")


def unit(day: int, job_id: str = "a") -> Unit:
    return Unit(DAYS[day], job_id, "r")


def landed_files(units: Collection[Unit], size: int = 10) -> dict[Unit, list[LandedFile]]:
    return {each: [LandedFile(*each, "folder/rank-0.jsonl", "path", size, 7)] for each in units}


def landing(
    units: Collection[Unit], changed: Collection[Unit] | None = None, size: int = 10
) -> LandingChanges:
    """Return a landing of these units, with one log file each.

    changed : units whose logs have changed; all, if left out
    size : of each log file [bytes]
    """
    return LandingChanges(
        landed_files(units, size), frozenset(units if changed is None else changed), frozenset(), ()
    )


class InMemory(Records):
    """Records of finished phases that a test states, instead of reading them from a warehouse."""

    def context(self, phase: str) -> dict[date, str]:
        """Return a hash of the preceding phase's records of earlier days, by day; {} if none are read."""
        if not PHASES[phase].looks_back:
            return {}
        return looked_back_on(self.done[phase_before(phase)], DAYS, self.settings.revision.days)


def records(done: Mapping[str, Recorded], look_back_days: int = 0) -> Records:
    """Return records in which each phase is done for the units given for it.

    look_back_days : number of earlier days on which revision depends
    """
    revision = SETTINGS.revision.model_copy(update={"days": look_back_days})
    settings = SETTINGS.model_copy(update={"revision": revision})
    found = InMemory(cast("TableReader", None), settings, DAYS)
    found.done = dict.fromkeys(PHASE_NAMES, cast("Recorded", {})) | dict(done)
    found.jobs = set(found.done["ingest"])
    return found


def test_the_bounds_of_the_landing_count_in_the_fingerprint_of_ingest_and_its_packing_does_not() -> None:
    def with_landing(**changed: int) -> Settings:
        return SETTINGS.model_copy(update={"landing": SETTINGS.landing.model_copy(update=changed)})

    one = ingested(unit(0))[unit(0)]
    assert one.is_as(wanted(SETTINGS, "ingest"))
    assert one.is_as(wanted(with_landing(packing=1), "ingest"))
    assert not one.is_as(wanted(with_landing(line_bytes=SETTINGS.landing.line_bytes + 1), "ingest"))


def ingested(*units: Unit, digest: str = "d") -> Recorded:
    accounts = [
        UnitAccount(each, None, [FileAccount(file, digest) for file in files], ops=100)
        for each, files in landed_files(units).items()
    ]
    return {each.unit: each for each in of_units(accounts, SETTINGS)}


def all_done(*units: Unit, look_back_days: int = 0) -> dict[str, Recorded]:
    """Return records in which every phase is done for the given units.

    look_back_days : number of earlier days on which revision depends
    """
    done = {"ingest": ingested(*units)}
    for phase in PHASE_NAMES[1:]:
        built = records(done, look_back_days).built_on(phase)
        done[phase] = {each.unit: each for each in built}
    return done


def changed(done: Mapping[str, Recorded], phase: str, *units: Unit) -> dict[str, Recorded]:
    """Return the records as if a phase had processed the given units from other input."""
    others = {each: done[phase][each]._replace(inputs="other") for each in units}
    return {**done, phase: done[phase] | others}


def test_days_with_work_make_batches_and_days_without_are_in_none() -> None:
    units = [unit(day) for day in (0, 1, 5, 6, 9)]
    batches = batches_of(records({}), landing(units), {"ingest": WANT}, LIMITS)
    assert [batch.units["ingest"] for batch in batches] == [frozenset(units[:3]), frozenset(units[3:])]
    assert [str(batch) for batch in batches] == [
        "2026-01-01, 2026-01-02, 2026-01-06",
        "2026-01-07, 2026-01-10",
    ]


@pytest.mark.parametrize(("size", "days"), [(300, [3]), (500, [2, 1]), (5000, [1, 1, 1])])
def test_a_batch_ends_before_its_logs_are_too_large(size: int, days: list[int]) -> None:
    found = landing([unit(day) for day in range(3)], size=size)
    batches = batches_of(records({}), found, {"ingest": WANT}, LIMITS)
    assert [len(batch.log_dates) for batch in batches] == days


def test_what_ingest_will_change_is_planned_for_all_that_follow() -> None:
    done = all_done(unit(0), unit(0, "b"), unit(1))
    late = landing(done["ingest"], [unit(0)])
    wants = dict.fromkeys(("ingest", "simulate", "revise", "aggregate"))
    (batch,) = batches_of(records(done), late, wants, LIMITS)
    days = {unit(0), unit(0, "b")}
    assert batch.units == {"ingest": {unit(0)}, "simulate": {unit(0)}, "revise": days, "aggregate": days}
    assert batch.work("aggregate") == Work(2, 20, 200)
    done = all_done(*done["ingest"], look_back_days=1)
    (batch,) = batches_of(records(done, look_back_days=1), late, wants, LIMITS)
    assert batch.units["revise"] == set(done["ingest"]), "the later day looks back on the changed one"


def test_ops_of_what_was_never_ingested_are_estimated_by_what_was() -> None:
    memory = records({"ingest": ingested(unit(0))})
    (batch,) = batches_of(memory, landing([unit(1)], size=40), {"ingest": WANT}, LIMITS)
    assert batch.work("ingest") == Work(1, 40, 400)
    assert seconds_for(batch.work("ingest"), "ingest", {"ingest": 8.0}) == 5.0
    assert seconds_for(batch.work("ingest"), "simulate", {"simulate": 8.0}) == 50.0


def test_the_health_of_a_day_is_work_and_no_unit() -> None:
    units = [unit(0), Unit.of_day(DAYS[0])]
    (batch,) = batches_of(records({}), landing(units), {"ingest": WANT}, LIMITS)
    assert batch.units["ingest"] == set(units)
    work = batch.work("ingest")
    assert (work.units, work.bytes) == (1, 20)


def test_results_follow_contents_settings_and_version() -> None:
    done, want = all_done(unit(0)), wanted(SETTINGS, "simulate")
    assert records(done).results_due(want) == set()
    assert records(done | {"ingest": ingested(unit(0), digest="e")}).results_due(want) == {unit(0)}
    assert records(done | {"simulate": {}}).results_due(want) == {unit(0)}
    for other in (("{}", want[1]), (want[0], "0")):
        assert records(done).results_due(other) == {unit(0)}
        assert records(done).results_due(None) == set()


def test_results_of_a_unit_that_left_go_and_of_one_whose_ingest_is_open_stay() -> None:
    memory = records(all_done(unit(0), unit(1)) | {"ingest": {}})
    memory.jobs = {unit(1)}
    assert memory.results_due(None) == {unit(0)}


def test_a_day_is_done_anew_where_its_units_are_others() -> None:
    done = all_done(unit(0), unit(0, "b"), unit(1))
    of_others: list[tuple[dict[str, Recorded], set[date]]] = [
        (done, set()),
        (done | {"revise": {each: done["revise"][each] for each in (unit(0), unit(1))}}, {FIRST}),
        (done | {"aggregate": {unit(1): done["aggregate"][unit(1)]}}, {FIRST}),
        (changed(done, "revise", unit(1)), {DAYS[1]}),
    ]
    for others, due in of_others:
        assert records(others).due("aggregate", None) == due


def test_causes_are_revised_anew_where_a_day_before_has_other_results() -> None:
    done = all_done(unit(0), unit(1), unit(3), look_back_days=2)
    assert records(done, 2).due("revise", None) == set()
    assert records(changed(done, "simulate", unit(0)), 2).due("revise", None) == {DAYS[0], DAYS[1]}


def test_days_are_aggregated_anew_where_revised_causes_before_them_changed() -> None:
    done = all_done(unit(0), unit(1), unit(2), look_back_days=1)
    assert records(done, 1).due("aggregate", None) == set()
    late = done | {"ingest": ingested(unit(0), digest="late")}
    built = {each.unit: each for each in records(late, 1).built_on("simulate")}
    late["simulate"] = built
    late["revise"] = {each.unit: each for each in records(late, 1).built_on("revise")}
    assert records(late, 1).due("aggregate", None) == {DAYS[0], DAYS[1], DAYS[2]}
    wants = dict.fromkeys(("simulate", "revise", "aggregate"))
    (batch,) = batches_of(records(changed(done, "simulate", unit(0)), 1), None, wants, LIMITS)
    assert batch.units["revise"] == {unit(0), unit(1)}
    assert batch.units["aggregate"] == {unit(0), unit(1), unit(2)}


def test_contents_do_not_depend_on_times_but_of_files_that_could_not_be_read() -> None:
    file = File("rank-0.jsonl", 10, 7, "d")
    assert contents_of([file]) == contents_of([file._replace(modified_us=8)])
    assert contents_of([file]) != contents_of([file._replace(digest="e")])
    assert contents_of([file]) != contents_of([file._replace(name="rank-1.jsonl")])
    unread = file._replace(digest=None)
    assert contents_of([unread]) != contents_of([unread._replace(modified_us=8)])


def test_a_day_that_looks_back_on_one_of_an_earlier_batch_is_revised_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If a day's results change, the plan also revises a later day that depends on it, in another batch."""
    done = all_done(unit(0), unit(1), look_back_days=1)
    done["ingest"] |= ingested(unit(0), digest="late")
    whole = records(done, look_back_days=1)

    def of_days(_: TableReader, __: Settings, log_dates: Sequence[date]) -> Records:
        found = records(done, look_back_days=1)
        found.done = {
            phase: {key: each for key, each in of_phase.items() if key[0] in log_dates}
            for phase, of_phase in done.items()
        }
        return found

    monkeypatch.setattr("jobs.history.plan.Records", of_days)
    limits = LIMITS.model_copy(update={"block_days": 1})
    settings = whole.settings.model_copy(update={"history": limits})
    phases = ["simulate", "revise"]
    batches = plan(cast("TableReader", None), settings, DAYS[:2], phases, data_only=True).batches
    assert [batch.units for batch in batches] == [
        {"simulate": {unit(0)}, "revise": {unit(0)}},
        {"simulate": set(), "revise": {unit(1)}},
    ]


@pytest.mark.parametrize(
    ("unknown", "said"),
    [
        ([unit(1), Unit.of_day(DAYS[1])], ["1 unit"]),
        ([unit(1), unit(1, "b")], ["2 units"]),
        ([Unit.of_day(DAYS[1])], []),
    ],
)
def test_a_plan_without_ingest_counts_the_runs_that_it_skips(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, unknown: list[Unit], said: list[str]
) -> None:
    memory = records(all_done(unit(0)))
    memory.jobs |= {*unknown}
    monkeypatch.setattr("jobs.history.plan.Records", lambda *_: memory)
    plan(cast("TableReader", None), memory.settings, DAYS[:2], ["simulate"], data_only=True)
    why = "without a record of complete ingestion (--phases ingest,... makes it)"
    assert caplog.messages == [f"skipped: {count} {why}" for count in said]
