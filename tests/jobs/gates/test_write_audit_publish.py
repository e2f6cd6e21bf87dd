"""Write, audit, publish: readers see either all tables that a phase wrote, or none of them."""

from collections.abc import Sequence
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from jobs.gates.checks import GateError, GateRefusedError, Rule
from jobs.gates.write_audit_publish import publish, refused_path
from jobs.report.links import docs_path
from jobs.warehouse.rows import StagedRows
from jobs.warehouse.staging import Staging
from jobs.warehouse.tables import Warehouse
from schemas.table import Table
from schemas.tables import TABLES
from schemas.vocabulary import DP_RANK_SLOWDOWN, RANK_STEPS, REJECTS, STAGE_SLOWDOWN
from tests.support.examples import DAY, NEXT_DAY, table_rows


@pytest.fixture
def warehouse(spark: SparkSession, tmp_path: Path) -> Warehouse:
    return Warehouse(spark, str(tmp_path / "warehouse"))


@pytest.fixture
def published(warehouse: Warehouse) -> Warehouse:
    """A warehouse with one published row of DAY."""
    tables = {name: table_rows(name) for name in (STAGE_SLOWDOWN, DP_RANK_SLOWDOWN)}
    assert publish("simulate", warehouse, tables, [DAY]).rows == {STAGE_SLOWDOWN: 1, DP_RANK_SLOWDOWN: 1}
    return warehouse


def contents(warehouse: Warehouse) -> dict[str, list[tuple[object, ...]]]:
    names = (STAGE_SLOWDOWN, DP_RANK_SLOWDOWN)
    return {name: sorted(map(tuple, warehouse.read(TABLES[name]).collect())) for name in names}


def count_refused(warehouse: Warehouse, phase: str) -> dict[str, int]:
    """Return the number of refused rows that a phase saved, by table or rule."""
    folder = Path(refused_path(warehouse.root, phase, [DAY]))
    spark = warehouse.spark
    return {
        each.name: spark.read.format("delta").load(str(each)).count()
        for each in (folder.iterdir() if folder.exists() else ())
    }


def test_all_refusals_are_listed_with_those_of_rules_across_tables(published: Warehouse) -> None:
    before = contents(published)
    phases = table_rows(STAGE_SLOWDOWN, [{}, {}])
    frames = {STAGE_SLOWDOWN: phases, DP_RANK_SLOWDOWN: table_rows(DP_RANK_SLOWDOWN, [{"dp_rank": -1}])}
    rules = [
        Rule("complete", phases.slice(0, 0)),
        Rule("lines", phases.select(["job_id"]), "rank_steps", "lines = rows + rejects"),
    ]
    with pytest.raises(GateRefusedError) as raised:
        publish("simulate", published, frames, [DAY], rules)
    assert str(raised.value) == (
        "gate refused, nothing of this phase was published: "
        "table stage_slowdown, expectation key_is_unique, 2 rows: "
        "(log_date, job_id, run_id, pp_rank) is unique; "
        "table dp_rank_slowdown, expectation dp_rank_in_range, 1 row: at least 0; "
        "table rank_steps, expectation lines, 2 rows: lines = rows + rejects "
        f"(refused rows are kept in {refused_path(published.root, 'simulate', [DAY])})"
    )
    assert contents(published) == before
    assert count_refused(published, "simulate") == {STAGE_SLOWDOWN: 2, DP_RANK_SLOWDOWN: 1, "lines": 2}
    with pytest.raises(GateRefusedError, match="expectation schema, 1 row: column pp_rank is missing"):
        publish("simulate", published, {STAGE_SLOWDOWN: phases.slice(1).drop_columns("pp_rank")}, [DAY])
    assert count_refused(published, "simulate")[STAGE_SLOWDOWN] == 1, (
        "refused rows are saved even if a column is missing"
    )
    assert refused_path("/w", "ingest", [NEXT_DAY, DAY]) == "/w/_refused/ingest/2026-01-05..2026-01-06"


def test_a_rule_that_only_warns_publishes_its_rows_and_says_so(
    warehouse: Warehouse, caplog: pytest.LogCaptureFixture
) -> None:
    rows = table_rows(REJECTS, [{"text": "x" * 2001}])
    rules = [Rule("whole", rows.select(["log_date"]), REJECTS, "all are whole", "warns")]
    found = publish("ingest", warehouse, {REJECTS: rows}, [DAY], rules)
    assert warehouse.read(TABLES[REJECTS]).count() == 1
    broken = [check for table in found.page.tables for check in table.broken]
    assert {check.expectation: check.warns for check in broken} == {"text_is_cut": True, "whole": True}
    for name in ("text_is_cut", "whole"):
        assert f"this rule only warns: table rejects, expectation {name}, 1 row" in caplog.text
    docs = Path(docs_path(warehouse.root, DAY, "ingest")).read_text()
    assert ": passed</h1>" in docs
    assert docs.count('<tr class="warning">') == 2
    with pytest.raises(GateRefusedError) as raised:
        publish(
            "ingest", warehouse, {REJECTS: table_rows(REJECTS, [{"text": "x" * 2001, "detail": None}])}, [DAY]
        )
    assert [refusal.expectation for refusal in raised.value.refusals] == ["detail_not_null"]


def test_rows_of_a_day_that_was_not_computed_are_refused(warehouse: Warehouse) -> None:
    frames = {STAGE_SLOWDOWN: table_rows(STAGE_SLOWDOWN, [{}, {"log_date": NEXT_DAY}])}
    with pytest.raises(GateRefusedError, match="expectation log_date_of_this_run, 1 row"):
        publish("simulate", warehouse, frames, [DAY])
    assert not warehouse.exists(STAGE_SLOWDOWN)


def test_an_expectation_that_cannot_be_evaluated_publishes_nothing(
    published: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(published)
    odd = "1 / (pp_rank - pp_rank) > 1"
    monkeypatch.setattr("jobs.gates.write_audit_publish.on_units", lambda *_: odd)
    with pytest.raises(GateError, match=r"log_date_of_this_run could not be evaluated: .* zero"):
        publish("simulate", published, {STAGE_SLOWDOWN: table_rows(STAGE_SLOWDOWN)}, [DAY])
    assert contents(published) == before


def test_rows_in_files_are_judged_where_they_are(warehouse: Warehouse) -> None:
    """Gates check lists in a staged file only if its writer has marked the file as not valid."""
    for is_sound in (True, False):
        staging = Staging(warehouse.root, "run")
        rows = table_rows(RANK_STEPS, [{"step": 7}, {"step": 8, "rank": -1, "duration_us": [-1.0, 0.0, 0.0]}])
        staging.write(RANK_STEPS, (("log_date", DAY.isoformat()),), rows)
        files = [file._replace(is_sound=is_sound) for file in staging.close()]
        with pytest.raises(GateRefusedError) as raised:
            publish("ingest", warehouse, {RANK_STEPS: StagedRows(RANK_STEPS, files, warehouse.root)}, [DAY])
        found = [refusal.expectation for refusal in raised.value.refusals]
        assert found == ["rank_in_range", *([] if is_sound else ["duration_us_elements_in_range"])]
        assert count_refused(warehouse, "ingest") == {RANK_STEPS: 1}


def test_refused_rows_that_cannot_be_saved_do_not_hide_the_refusal(
    warehouse: Warehouse, caplog: pytest.LogCaptureFixture
) -> None:
    twice = table_rows(STAGE_SLOWDOWN).rename_columns(["log_date", "job_id", "run_id", "x", "x"])
    with pytest.raises(GateRefusedError, match="expectation schema, 1 row: column pp_rank is missing"):
        publish("simulate", warehouse, {STAGE_SLOWDOWN: twice}, [DAY])
    assert "refused rows of stage_slowdown could not be saved" in caplog.text


def test_a_writer_that_fails_leaves_all_tables_as_they_were(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = Warehouse.replace

    def fail_on_phases(
        self: Warehouse, table: Table, new: pa.Table, days: Sequence[date], units: None = None
    ) -> None:
        if table.name == STAGE_SLOWDOWN:
            raise OSError("disk full")
        replace(self, table, new, days, units)

    monkeypatch.setattr(Warehouse, "replace", fail_on_phases)
    frames = {name: table_rows(name) for name in (STAGE_SLOWDOWN, DP_RANK_SLOWDOWN)}
    with pytest.raises(OSError, match="disk full"):
        publish("simulate", warehouse, frames, [DAY])
    assert {name: len(found) for name, found in contents(warehouse).items()} == {
        STAGE_SLOWDOWN: 0,
        DP_RANK_SLOWDOWN: 0,
    }


def test_a_table_is_one_file_a_day_sorted_by_its_key(warehouse: Warehouse) -> None:
    keys = [{"log_date": day, "pp_rank": rank} for rank in (3, 1, 2, 0) for day in (DAY, NEXT_DAY)]
    publish("simulate", warehouse, {STAGE_SLOWDOWN: table_rows(STAGE_SLOWDOWN, keys)}, [DAY, NEXT_DAY])
    for day in (DAY, NEXT_DAY):
        found = warehouse.read(TABLES[STAGE_SLOWDOWN], [day])
        assert len(warehouse.files(TABLES[STAGE_SLOWDOWN], [day])) == 1
        assert [row.pp_rank for row in found.collect()] == [0, 1, 2, 3]
