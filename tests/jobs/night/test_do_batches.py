"""If gates refuse a batch of days, all other batches are still done, and every refusal is reported."""

import re
from datetime import date
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from jobs.entry_points.run_log import refused_by
from jobs.gates.checks import Check, GateRefusedError
from jobs.history.fingerprints import Wanted
from jobs.history.plan import Batch, Work
from jobs.night.do_batches import do_batches
from jobs.runtime.settings import load_settings
from tests.jobs.history.test_plan import FIRST, WANT, unit

PHASES = ("ingest", "simulate", "aggregate")
Done = list[tuple[str, list[int]]]


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> Done:
    """(phase, days) done by a run in which gates refuse simulate of day 1, and ingest of days 4 and 6."""
    found: Done = []
    refusals = {("simulate", 1): (day(1),), ("ingest", 4): (day(4),), ("ingest", 6): ()}

    def do(_: object, __: object, batch: Batch, phase: str, ___: Wanted) -> dict[str, int]:
        days = [(each - FIRST).days for each in batch.log_dates]
        broken = [(number, refusals[phase, number]) for number in days if (phase, number) in refusals]
        if broken:
            refused = [Check(f"table{number}", "broken", 1, "good", of) for number, of in broken]
            raise GateRefusedError(refused, f"/w/_refused/{days}")
        if phase == "simulate" and 40 in days:
            raise ConnectionError("the store is gone")
        found.append((phase, days))
        return {"job_causes": len(days), f"{phase}.units": len(days)}

    monkeypatch.setattr("jobs.night.do_batches._do", do)
    return found


def day(number: int) -> date:
    return unit(number)[0]


def do_days(*batches: list[int]) -> dict[str, int]:
    made = [
        Batch(
            tuple(map(day, days)),
            dict.fromkeys(PHASES, frozenset(map(unit, days))),
            {unit(each): Work(1, 1, 1) for each in days},
        )
        for days in batches
    ]
    spark: Any = None
    return do_batches(cast("SparkSession", spark), load_settings("base"), made, dict.fromkeys(PHASES, WANT))


def all_phases(*days: int) -> Done:
    return [(phase, list(days)) for phase in PHASES]


def test_batches_that_pass_are_done_as_they_are(done: Done) -> None:
    counts = do_days([2, 3], [5])
    assert counts.pop("job_causes") == 3, "rows that phases publish again count once"
    assert counts == {f"{phase}.units": 3 for phase in PHASES}
    assert done == [*all_phases(2, 3), *all_phases(5)]


def test_a_refused_day_keeps_no_other_back(done: Done, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(GateRefusedError) as raised:
        do_days([0, 1, 2], [4], [5])
    others: Done = [("ingest", [0, 1, 2]), ("simulate", [0, 2]), ("aggregate", [0, 2])]
    assert done == [*others, *all_phases(5)]
    broken = "gate refused, all was done but 2026-01-02, 2026-01-05: table table1, expectation broken, 1 row"
    assert str(raised.value).startswith(broken)
    assert [refusal.table for refusal in raised.value.refusals] == ["table1", "table4"]
    assert raised.value.kept_in == "/w/_refused/[0, 1, 2], /w/_refused/[4]"
    units = {"ingest.units": 4, "simulate.units": 3, "aggregate.units": 3}
    assert raised.value.counts == {"job_causes": 4, **units}
    assert "2026-01-02: gate refused" in caplog.text, "logged at once, as a later error may end the run"


def test_a_refusal_of_no_day_is_looked_for_day_by_day(done: Done) -> None:
    with pytest.raises(GateRefusedError, match="all was done but 2026-01-07: table table6"):
        do_days([5, 6, 7])
    assert done == [*all_phases(5), *all_phases(7)]


def test_what_was_refused_before_another_error_is_its_cause(done: Done) -> None:
    with pytest.raises(ConnectionError) as raised:
        do_days([4], [5], [40])
    assert done == [*all_phases(5), ("ingest", [40])]
    broken = refused_by(raised.value)
    assert broken is not None
    assert [each["table"] for each in broken] == ["table4"]


def test_a_backfill_logs_a_line_a_batch_with_what_is_left(
    done: Done, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        do_days([2, 3], [5])
    first, last = (record.getMessage() for record in caplog.records if "batch" in record.getMessage())
    assert re.fullmatch(rf"batch 1 of 2, {day(2)}.*{day(3)}, done after [\d.]+ s; about \d+ s left", first)
    assert re.fullmatch(rf"batch 2 of 2, {day(5)}.*, done after [\d.]+ s", last)
    assert done == [*all_phases(2, 3), *all_phases(5)]
