"""What a plan makes of fingerprints, without Spark: which units of which days, in which blocks."""

from collections.abc import Collection
from datetime import date, timedelta

import pytest

from jobs.history.blocks import Block, Work, blocks_of, seconds_for
from jobs.history.changed_units import LandingChanges, Recollection, changed_results, days_due
from jobs.history.fingerprints import (
    File,
    Fingerprint,
    Recorded,
    built_on,
    contents_of,
    looked_back_on,
    of_units,
)
from jobs.landing.accounts import FileAccount, UnitAccount
from jobs.landing.files import LandedFile
from jobs.runtime.settings import Settings, load_settings
from jobs.runtime.settings_sections import HistorySettings
from schemas.unit import Unit
from schemas.vocabulary import PHASE_NAMES

FIRST = date(2026, 1, 1)
LIMITS = HistorySettings(look_back_days=7, block_days=3, block_bytes=1000)
WANT = ("{}", "1")


def unit(day: int, job_id: str = "a") -> Unit:
    return Unit(FIRST + timedelta(days=day), job_id, "r")


def landed_files(units: Collection[Unit], size: int = 10) -> dict[Unit, list[LandedFile]]:
    return {each: [LandedFile(*each, "folder/rank-0.jsonl", "path", size, 7)] for each in units}


def landing(units: Collection[Unit], size: int = 10) -> LandingChanges:
    """Units of which none was ever ingested."""
    return LandingChanges(landed_files(units, size), frozenset(units), frozenset(), ())


def recollection(look_back_days: int = 0, **done: Recorded) -> Recollection:
    """What is recorded of some days."""
    found = {stage: done.get(stage, {}) for stage in PHASE_NAMES}
    return Recollection(found, set(found["ingest"]), CONTEXT, look_back_days)


CONTEXT = looked_back_on({}, [FIRST + timedelta(days=age) for age in range(20)], 14)
NEVER = recollection()


def ingested(*units: Unit, digest: str = "d") -> Recorded:
    accounts = [
        UnitAccount(each, None, [FileAccount(file, digest) for file in files], ops=100)
        for each, files in landed_files(units).items()
    ]
    return {each.unit: each for each in of_units(accounts)}


def done(before: Recorded, stage: str) -> Recorded:
    context = CONTEXT if stage == "revise" else None
    return {each.unit: each for each in built_on(before, stage, settings(), context)}


def settings() -> Settings:
    return load_settings("base")


def days_of(blocks: Collection[Block]) -> list[list[int]]:
    return [[(day - FIRST).days for day in block.log_dates] for block in blocks]


def test_days_with_work_make_blocks_and_days_without_are_in_none() -> None:
    units = [unit(day) for day in (0, 1, 5, 6, 9)]
    blocks = blocks_of(NEVER, landing(units), {"ingest": WANT}, LIMITS)
    assert days_of(blocks) == [[0, 1, 5], [6, 9]]
    assert [block.units["ingest"] for block in blocks] == [frozenset(units[:3]), frozenset(units[3:])]


@pytest.mark.parametrize(
    ("size", "days"), [(300, [[0, 1, 2]]), (500, [[0, 1], [2]]), (5000, [[0], [1], [2]])]
)
def test_a_block_ends_before_its_logs_are_too_large(size: int, days: list[list[int]]) -> None:
    blocks = blocks_of(NEVER, landing([unit(day) for day in range(3)], size), {"ingest": WANT}, LIMITS)
    assert days_of(blocks) == days


def test_what_ingest_will_change_is_planned_for_all_that_follow() -> None:
    before = ingested(unit(0), unit(0, "b"), unit(1))
    simulated = done(before, "simulate")
    revised = done(simulated, "revise")
    memory = recollection(
        ingest=before, simulate=simulated, revise=revised, aggregate=done(revised, "aggregate")
    )
    changed = LandingChanges(landed_files(before), frozenset([unit(0)]), frozenset(), ())
    wants = dict.fromkeys(("ingest", "simulate", "revise", "aggregate"))
    (block,) = blocks_of(memory, changed, wants, LIMITS)
    days = {unit(0), unit(0, "b")}
    assert block.units == {"ingest": {unit(0)}, "simulate": {unit(0)}, "revise": days, "aggregate": days}
    assert block.jobs == {"a", "b"}
    assert block.work("aggregate") == Work(2, 20, 200)
    (block,) = blocks_of(memory._replace(look_back_days=1), changed, wants, LIMITS)
    assert block.units["revise"] == set(before), "a day that looks back on it"


def test_ops_of_what_was_never_ingested_are_estimated_by_what_was() -> None:
    memory = recollection(ingest=ingested(unit(0)))
    new = LandingChanges(landed_files([unit(1)], 40), frozenset([unit(1)]), frozenset(), ())
    (block,) = blocks_of(memory, new, {"ingest": WANT}, LIMITS)
    assert block.work("ingest") == Work(1, 40, 400)
    assert seconds_for(block.work("ingest"), "ingest", {"ingest": 8.0}) == 5.0
    assert seconds_for(block.work("ingest"), "simulate", {"simulate": 8.0}) == 50.0


def test_results_follow_contents_settings_and_version() -> None:
    before = ingested(unit(0))
    simulated = done(before, "simulate")
    want = simulated[unit(0)].settings, simulated[unit(0)].version
    assert changed_results(before, simulated, set(before), want) == set()
    assert changed_results(ingested(unit(0), digest="e"), simulated, set(before), want) == {unit(0)}
    assert changed_results(before, {}, set(before), want) == {unit(0)}
    for other in (("{}", want[1]), (want[0], "0")):
        assert changed_results(before, simulated, set(before), other) == {unit(0)}
        assert changed_results(before, simulated, set(before), None) == set()


def test_results_of_a_unit_that_left_go_and_of_one_whose_ingest_is_open_stay() -> None:
    simulated = done(ingested(unit(0), unit(1)), "simulate")
    assert changed_results({}, simulated, {unit(1)}, None) == {unit(0)}


def test_a_day_is_done_anew_where_its_units_are_others() -> None:
    revised = done(done(ingested(unit(0), unit(0, "b"), unit(1)), "simulate"), "revise")
    aggregated = done(revised, "aggregate")
    assert days_due(revised, aggregated, None) == set()
    fewer = {each: revised[each] for each in (unit(0), unit(1))}
    assert days_due(fewer, aggregated, None) == {FIRST}
    assert days_due(revised, {unit(1): aggregated[unit(1)]}, None) == {FIRST}
    other = revised | {unit(1): replace_inputs(revised[unit(1)])}
    assert days_due(other, aggregated, None) == {unit(1)[0]}


def test_causes_are_revised_anew_where_a_day_before_has_other_results() -> None:
    simulated = done(ingested(unit(0), unit(1), unit(3)), "simulate")
    days = [each[0] for each in simulated]
    context = looked_back_on(simulated, days, 2)
    revised = {each.unit: each for each in built_on(simulated, "revise", settings(), context)}
    assert days_due(simulated, revised, None, context) == set()
    other = simulated | {unit(0): replace_inputs(simulated[unit(0)])}
    assert days_due(other, revised, None, looked_back_on(other, days, 2)) == {unit(0)[0], unit(1)[0]}


def replace_inputs(fingerprint: Fingerprint) -> Fingerprint:
    return fingerprint._replace(inputs="other")


def test_contents_do_not_depend_on_times_but_of_files_that_could_not_be_read() -> None:
    file = File("rank-0.jsonl", 10, 7, "d")
    assert contents_of([file]) == contents_of([file._replace(modified_us=8)])
    assert contents_of([file]) != contents_of([file._replace(digest="e")])
    assert contents_of([file]) != contents_of([file._replace(name="rank-1.jsonl")])
    unread = file._replace(digest=None)
    assert contents_of([unread]) != contents_of([unread._replace(modified_us=8)])
