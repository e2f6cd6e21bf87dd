"""A refused night: kept for inspection, told on its page, and let through by hand."""

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs import release_night
from jobs.gates import GateRefusedError
from jobs.quality_docs import Check, Page, TableChecks, docs_path, html
from jobs.releases import NEVER, Release, record_release
from jobs.stage import Violations, publish
from jobs.warehouse import Warehouse
from schemas.tables import TABLES
from schemas.vocabulary import DP_RANK_SLOWDOWN, EXIT_WRONG_SETTINGS, PIPELINE_RUNS, STAGE_SLOWDOWN
from tests.examples import DAY, NEXT_DAY, frame

BAD: dict[str, Any] = {"pp_rank": -1}
REFUSED = "stage_slowdown.pp_rank_in_range"
RULE = "several.complete"


@pytest.fixture
def warehouse(spark: SparkSession, tmp_path: Path) -> Warehouse:
    return Warehouse(spark, str(tmp_path / "warehouse"))


def publish_bad(warehouse: Warehouse, days: Sequence[date] = (DAY,)) -> int:
    """Publish a row that a gate refuses, and a rule that it breaks; returns the refusals released."""
    spark = warehouse.spark
    frames = {
        STAGE_SLOWDOWN: frame(spark, STAGE_SLOWDOWN, [{"log_date": day} | BAD for day in days]),
        DP_RANK_SLOWDOWN: frame(spark, DP_RANK_SLOWDOWN),
    }
    rules = [Violations("complete", frames[STAGE_SLOWDOWN].select("job_id"))]
    return publish("simulate", warehouse, frames, days, rules).gates.released


def release(warehouse: Warehouse, *names: str, day: date = DAY) -> None:
    record_release(warehouse, Release(day, names, "anna", "the rank is a test's own"), "")


def page(warehouse: Warehouse, day: date = DAY) -> str:
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
    kept = warehouse.spark.read.format("delta").load(f"{warehouse.refused_path('simulate')}/{STAGE_SLOWDOWN}")
    assert kept.count() == 1
    runs = warehouse.read(TABLES[PIPELINE_RUNS]).where("accepted_by IS NOT NULL").collect()
    assert {(run["accepted_by"], run["accepted_because"]) for run in runs} == {
        ("anna", "the rank is a test's own")
    }


def test_a_release_holds_for_its_own_day(warehouse: Warehouse) -> None:
    release(warehouse, REFUSED, RULE)
    with pytest.raises(GateRefusedError):
        publish_bad(warehouse, [NEXT_DAY])
    with pytest.raises(GateRefusedError):
        publish_bad(warehouse, [DAY, NEXT_DAY])
    release(warehouse, REFUSED, RULE, day=NEXT_DAY)
    assert publish_bad(warehouse, [DAY, NEXT_DAY]) == 2


def test_what_a_table_cannot_be_written_without_is_never_released(
    warehouse: Warehouse, spark: SparkSession
) -> None:
    release(warehouse, "stage_slowdown.key_is_unique")
    twice = {STAGE_SLOWDOWN: frame(spark, STAGE_SLOWDOWN, [{}, {}])}
    with pytest.raises(GateRefusedError, match="key_is_unique"):
        publish("simulate", warehouse, twice, [DAY])


@pytest.mark.parametrize(
    ("accepted", "told"),
    [
        ("stage_slowdown", "is not table.expectation"),
        *((f"stage_slowdown.{name}", "cannot be written") for name in NEVER),
    ],
)
def test_a_release_of_what_cannot_be_released_is_a_wrong_argument(
    accepted: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--log-date", "2026-01-05", "--accept", accepted, "--by", "anna", "--because", "why not"]
    assert release_night.main(arguments) == EXIT_WRONG_SETTINGS
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("name", ["--by", "--because"])
def test_a_release_names_somebody_and_a_reason(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = {"--log-date": "2026-01-05", "--accept": REFUSED, "--by": "anna", "--because": "so", name: " "}
    assert release_night.main([word for pair in given.items() for word in pair]) == EXIT_WRONG_SETTINGS
    assert f"argument {name}: must not be empty" in capsys.readouterr().err


def test_a_release_by_command_is_found_by_the_next_run(warehouse: Warehouse) -> None:
    accept = [word for name in (REFUSED, RULE) for word in ("--accept", name)]
    arguments = ["--log-date", "2026-01-05", *accept, "--by", "anna", "--because", "it is known"]
    assert release_night.main([*arguments, "--warehouse", warehouse.root]) == 0
    assert publish_bad(warehouse) == 2
    (run,) = warehouse.read(TABLES[PIPELINE_RUNS]).collect()
    assert (run["entry_point"], run["log_date"], run["accepted"]) == ("release_night", DAY, [REFUSED, RULE])
    assert "--because 'it is known'" in run["arguments"]


def test_the_page_of_a_night_says_what_was_held_and_what_was_refused(
    warehouse: Warehouse, spark: SparkSession
) -> None:
    good = {STAGE_SLOWDOWN: frame(spark, STAGE_SLOWDOWN)}
    held = publish("simulate", warehouse, good, [DAY]).gates.expectations
    assert held == len(TABLES[STAGE_SLOWDOWN].all_expectations()) + 3
    assert "simulate, 2026-01-05: held" in page(warehouse)
    assert page(warehouse).count("<td>0</td>") == held
    with pytest.raises(GateRefusedError):
        publish_bad(warehouse)
    refused = page(warehouse)
    assert "simulate, 2026-01-05: refused" in refused
    assert f"kept in {warehouse.refused_path('simulate')}" in refused
    assert f"release_night --log-date 2026-01-05 --accept {REFUSED} --accept {RULE} --by" in refused
    assert '<tr class="broken"><td>pp_rank_in_range</td><td>at least 0</td><td>1</td></tr>' in refused
    release(warehouse, REFUSED, RULE)
    publish_bad(warehouse)
    assert "simulate, 2026-01-05: released by hand" in page(warehouse)
    assert page(warehouse).count('class="released"') == 2


def test_names_on_a_page_are_text_whatever_they_are() -> None:
    checks = [Check("<b>", "a & b", 1)]
    text = html(Page("simulate", [DAY], [TableChecks("<i>", "", 1, checks)], "<u>", {"<s>": 1}, ["<em>"]))
    assert not [tag for tag in ("<b>", "<i>", "<u>", "<s>", "<em>") if tag in text]
    assert "a &amp; b" in text


def test_a_page_that_cannot_be_written_stops_nothing(
    warehouse: Warehouse, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    Path(warehouse.root).mkdir()
    Path(warehouse.root, "_quality").touch()
    publish("simulate", warehouse, {STAGE_SLOWDOWN: frame(spark, STAGE_SLOWDOWN)}, [DAY])
    assert "data docs of simulate could not be written" in caplog.text
    assert warehouse.read(TABLES[STAGE_SLOWDOWN]).count() == 1
