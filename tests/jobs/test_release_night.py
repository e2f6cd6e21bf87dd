"""The rows of a refused night are saved, shown on its page, and can be released by a person."""

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs import backfill, release_night
from jobs.entry_points.run_log import recorded_run
from jobs.gates.checks import OF_EVERY_TABLE, Check, GateRefusedError, Rule
from jobs.gates.quality_docs import Page, TableChecks, html
from jobs.gates.write_audit_publish import publish, refused_path
from jobs.release_night import Release, record_release, refused
from jobs.report.links import docs_path
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import DP_RANK_SLOWDOWN, PIPELINE_RUNS, RESULT_TABLES, STAGE_SLOWDOWN, Exit
from tests.support.examples import DAY, NEXT_DAY, table_rows

BAD: dict[str, Any] = {"pp_rank": -1}
REFUSED = "stage_slowdown.pp_rank_in_range"
RULE = "several.complete"


@pytest.fixture
def warehouse(spark: SparkSession, tmp_path: Path) -> Warehouse:
    return Warehouse(spark, str(tmp_path / "warehouse"))


def publish_bad(warehouse: Warehouse, days: Sequence[date] = (DAY,)) -> int:
    """Publish rows that gates refuse; return how many refusals a person had released before."""
    tables = {
        STAGE_SLOWDOWN: table_rows(STAGE_SLOWDOWN, [{"log_date": day} | BAD for day in days]),
        DP_RANK_SLOWDOWN: table_rows(DP_RANK_SLOWDOWN),
    }
    rules = [Rule("complete", tables[STAGE_SLOWDOWN].select(["job_id"]))]
    return publish("simulate", warehouse, tables, days, rules).gates.released


def release(warehouse: Warehouse, *names: str, day: date = DAY) -> None:
    record_release(warehouse, Release(day, names, "anna", "the rank is a test's own"), "")


def page(warehouse: Warehouse, day: date = DAY) -> str:
    """Return the data docs of the phase simulate on a day."""
    return Path(docs_path(warehouse.root, day, "simulate")).read_text()


def test_a_refused_night_is_published_once_all_of_it_is_released(
    warehouse: Warehouse, caplog: pytest.LogCaptureFixture
) -> None:
    for names in ((), (REFUSED,), (RULE, "stage_slowdown.slowdown_finite")):
        release(warehouse, *names)
        if set(names) != {RULE, "stage_slowdown.slowdown_finite"}:
            with pytest.raises(GateRefusedError):
                publish_bad(warehouse)
            assert not warehouse.exists(STAGE_SLOWDOWN)
    assert publish_bad(warehouse) == 2
    assert warehouse.read(TABLES[STAGE_SLOWDOWN]).count() == 1
    assert f"table {REFUSED.split('.', maxsplit=1)[0]}, expectation pp_rank_in_range, 1 row" in caplog.text
    stored = warehouse.spark.read.format("delta").load(
        f"{refused_path(warehouse.root, 'simulate', [DAY])}/{STAGE_SLOWDOWN}"
    )
    assert stored.count() == 1
    runs = warehouse.read(TABLES[PIPELINE_RUNS]).where("accepted_by IS NOT NULL").collect()
    assert {(run["accepted_by"], run["accepted_because"]) for run in runs} == {
        ("anna", "the rank is a test's own")
    }


def test_a_release_applies_to_one_day(warehouse: Warehouse) -> None:
    release(warehouse, REFUSED, RULE)
    with pytest.raises(GateRefusedError):
        publish_bad(warehouse, [NEXT_DAY])
    with pytest.raises(GateRefusedError):
        publish_bad(warehouse, [DAY, NEXT_DAY])
    release(warehouse, REFUSED, RULE, day=NEXT_DAY)
    assert publish_bad(warehouse, [DAY, NEXT_DAY]) == 2


def test_what_a_table_cannot_be_written_without_is_never_released(
    warehouse: Warehouse,
) -> None:
    release(warehouse, "stage_slowdown.key_is_unique")
    twice = {STAGE_SLOWDOWN: table_rows(STAGE_SLOWDOWN, [{}, {}])}
    with pytest.raises(GateRefusedError, match="key_is_unique"):
        publish("simulate", warehouse, twice, [DAY])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"--accept": "stage_slowdown"}, "is not table.expectation"),
        *(({"--accept": f"stage_slowdown.{name}"}, "cannot be written") for name in OF_EVERY_TABLE),
        ({"--by": " "}, "Invalid value for '--by': must not be empty"),
        ({"--because": " "}, "Invalid value for '--because': must not be empty"),
    ],
)
def test_a_release_of_what_cannot_be_released_or_without_a_reason_is_a_wrong_argument(
    wrong: dict[str, str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"--log-date": "2026-01-05", "--accept": REFUSED, "--by": "anna", "--because": "so"} | wrong
    assert release_night.main([word for pair in given.items() for word in pair]) == Exit.WRONG_SETTINGS
    assert message in capsys.readouterr().err


def test_a_release_by_command_of_what_a_gate_has_refused_is_found_by_the_next_run(
    warehouse: Warehouse, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only recorded refusals of this warehouse can be released; the next run then publishes their rows."""
    with pytest.raises(GateRefusedError), recorded_run(warehouse, "simulate_what_if", [], DAY):
        publish_bad(warehouse)

    def released(*names: str) -> int:
        accept = [word for name in names for word in ("--accept", name)]
        reason = ["--by", "anna", "--because", "it is known", "--warehouse", warehouse.root]
        return release_night.main(["--log-date", "2026-01-05", *accept, *reason])

    assert released("several.complet") == Exit.WRONG_SETTINGS
    message = f"no gate has refused that in {warehouse.root}; these were refused: {RULE}, {REFUSED}"
    assert f"--accept several.complet: {message}" in capsys.readouterr().err
    assert released(REFUSED, RULE) == 0
    assert publish_bad(warehouse) == 2
    (run,) = warehouse.read(TABLES[PIPELINE_RUNS]).where("accepted IS NOT NULL").collect()
    assert (run["entry_point"], run["log_date"], run["accepted"]) == ("release_night", DAY, [REFUSED, RULE])
    assert "--because 'it is known'" in run["arguments"]


def test_what_a_backfill_beside_the_current_results_refuses_can_be_released_there(
    warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        publish_bad(warehouse)

    monkeypatch.setattr(backfill, "run", refuse)
    (tmp_path / "current").mkdir()
    arguments = ["--from", DAY.isoformat(), "--to", DAY.isoformat(), "--warehouse", str(tmp_path / "current")]
    assert backfill.main([*arguments, "--warehouse-new", warehouse.root]) == 3
    assert refused(warehouse) == {REFUSED, RULE}
    (run,) = warehouse.read(TABLES[PIPELINE_RUNS]).collect()
    assert (run["outcome"], run["entry_point"]) == ("gate_refused", "backfill")


def test_days_without_refused_rows_need_no_release(warehouse: Warehouse) -> None:
    stages = table_rows(STAGE_SLOWDOWN, [{"log_date": DAY} | BAD, {"log_date": NEXT_DAY}])
    rules = [Rule("complete", stages.slice(0, 1).select(["log_date", "job_id"]))]

    def publish_both() -> int:
        return publish("simulate", warehouse, {STAGE_SLOWDOWN: stages}, [DAY, NEXT_DAY], rules).gates.released

    with pytest.raises(GateRefusedError) as raised:
        publish_both()
    assert {refusal.log_dates for refusal in raised.value.refusals} == {(DAY,)}
    assert page(warehouse, NEXT_DAY).count("straggler release") == 1
    release(warehouse, REFUSED, RULE)
    assert publish_both() == 2


def test_the_page_of_a_whole_night_stays_when_a_part_of_it_changes(warehouse: Warehouse) -> None:
    tables = {name: table_rows(name) for name in RESULT_TABLES}
    publish("simulate", warehouse, tables, [DAY])
    whole = Path(docs_path(warehouse.root, DAY, "simulate"))
    before = whole.read_text()
    publish("simulate", warehouse, tables, [DAY], (), [Unit(DAY, "gpt-175b", "r3")])
    assert whole.read_text() == before
    assert whole.with_name("simulate-later.html").exists()
    publish("simulate", warehouse, tables, [DAY])
    assert not whole.with_name("simulate-later.html").exists()


def test_a_page_offers_no_release_that_would_not_do() -> None:
    checks = [Check("several", "complete", 1, ""), Check("several", "key_is_unique", 1, "")]
    refused = Page("simulate", [DAY], "/w", [TableChecks("several", "", None, checks)])
    assert refused.releases == []
    assert "Fix the defect and run the phase again.</p>" in html(refused)


def test_the_page_of_a_night_says_what_passed_and_what_was_refused(
    warehouse: Warehouse,
) -> None:
    good = {STAGE_SLOWDOWN: table_rows(STAGE_SLOWDOWN)}
    checks = publish("simulate", warehouse, good, [DAY]).gates.expectations
    assert checks == len(TABLES[STAGE_SLOWDOWN].all_expectations()) + 3
    assert "simulate, 2026-01-05: passed" in page(warehouse)
    assert page(warehouse).count("<td>0</td>") == checks
    with pytest.raises(GateRefusedError):
        publish_bad(warehouse)
    refused = page(warehouse)
    assert "simulate, 2026-01-05: refused" in refused
    assert f"kept in {refused_path(warehouse.root, 'simulate', [DAY])}" in refused
    message = f"straggler release --warehouse {warehouse.root} --log-date 2026-01-05"
    assert f"{message} --accept {REFUSED} --accept {RULE} --by" in refused
    assert '<tr class="refused"><td>pp_rank_in_range</td><td>at least 0</td><td>1</td></tr>' in refused
    release(warehouse, REFUSED, RULE)
    publish_bad(warehouse)
    assert "simulate, 2026-01-05: released by hand" in page(warehouse)
    assert page(warehouse).count('class="released"') == 2


def test_names_on_a_page_are_text_whatever_they_are() -> None:
    checks = [Check("x", "<b>", 1, "a & b")]
    text = html(
        Page("simulate", [DAY], "<q>", [TableChecks("<i>", "", 1, checks)], (), "<u>", {"<s>": 1}, ["<em>"])
    )
    assert not [tag for tag in ("<b>", "<i>", "<q>", "<u>", "<s>", "<em>") if tag in text]
    assert "a &amp; b" in text


def test_a_page_that_cannot_be_written_stops_nothing(
    warehouse: Warehouse, caplog: pytest.LogCaptureFixture
) -> None:
    Path(warehouse.root).mkdir()
    Path(warehouse.root, "_quality").touch()
    publish("simulate", warehouse, {STAGE_SLOWDOWN: table_rows(STAGE_SLOWDOWN)}, [DAY])
    assert "data docs of simulate could not be written" in caplog.text
    assert warehouse.read(TABLES[STAGE_SLOWDOWN]).count() == 1
