"""Workers write results to files; the driver receives descriptions of the files, and commits them."""

from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from jobs.gates.audit import audit
from jobs.gates.result_rules import incomplete_units
from jobs.night.simulate import simulated
from jobs.runtime.settings import Settings
from jobs.warehouse import rows, staged_results
from jobs.warehouse.rows import Rows, StagedRows, staged_rows
from jobs.warehouse.staged_results import Shares, shares_of, stage_results
from jobs.warehouse.staging import StagedFile, Staging, swept
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import JOB_SLOWDOWN, JOBS, RANK_STEPS, RESULT_TABLES, STEP_SLOWDOWN, Status
from tests.support.examples import DAY, NEXT_DAY, table_rows
from tests.udfs.lines import Ops, line, manifest, rank_steps
from udfs.simulate.unit_batches import (
    RESULT_SCHEMA,
    SIMULATED_COLUMNS,
    Results,
    UnitRows,
    results_batches,
    results_of,
    simulate_unit,
)
from udfs.what_if import SimulationSettings

OPS: Ops = [("forward-compute", 0, 1), ("backward-compute", 1, 2)]
LINES = rank_steps(line(0, 0, 0, OPS)).select(SIMULATED_COLUMNS)
GOOD: dict[str, Any] = manifest() | {"manifest_status": None, "manifest_detail": None}
UNITS = [Unit(day, f"job-{number}", "r0") for day in (DAY, NEXT_DAY) for number in range(3)]


def batches(shares: Shares) -> list[pa.RecordBatch]:
    """Return the results of one task for each unit, last unit first, as a shuffle may deliver them."""
    return [batch for unit in reversed(UNITS) for batch in results_batches(_only(unit), shares.place)([])]


def _only(unit: Unit) -> Callable[[object], Iterator[tuple[Unit, Results]]]:
    results = simulate_unit(UnitRows(unit, GOOD, LINES), SimulationSettings(minimum_steps=1))
    return lambda _: iter([(unit, results)])


def ordered(name: str, table: pa.Table) -> list[dict[str, Any]]:
    found = table.select(TABLES[name].column_names)
    return list(found.sort_by([(key, "ascending") for key in TABLES[name].grain]).to_pylist())


def test_neighbours_share_a_file_and_no_two_tasks_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shares_of(UNITS, 400) == Shares([], len(RESULT_TABLES)), "for few units, one file for each table"
    monkeypatch.setattr(staged_results, "UNITS_OF_A_FILE", 2)
    shares = shares_of(UNITS[::-1], 3)
    assert (shares.firsts, shares.places) == ([UNITS[2], UNITS[4]], 9)
    places = {unit: {shares.place(unit, name) for name in RESULT_TABLES} for unit in UNITS}
    assert [places[unit] for unit in UNITS[::2]] == [{0, 1, 2}, {3, 4, 5}, {6, 7, 8}]
    assert all(places[UNITS[at]] == places[UNITS[at + 1]] for at in (0, 2, 4))


def test_tasks_stage_one_sorted_file_a_table_and_day_that_a_commit_takes(
    spark: SparkSession, tmp_path: Path
) -> None:
    warehouse = Warehouse(spark, str(tmp_path))
    warehouse.create(*(TABLES[name] for name in RESULT_TABLES))
    shares = shares_of(UNITS, 2)
    made = batches(shares)
    wanted = results_of(made)
    frame = spark.createDataFrame(pa.Table.from_batches(made), from_arrow_schema(RESULT_SCHEMA))
    files = stage_results(frame, shares, warehouse.root, [DAY, NEXT_DAY])
    have_rows = [name for name in RESULT_TABLES if wanted[name].num_rows]
    assert sorted(file.table for file in files) == sorted([*have_rows, *have_rows]), (
        "one file for each of two days"
    )
    with staged_rows(files, warehouse.root, RESULT_TABLES) as staged:
        for name in have_rows:
            found = staged[name].in_files.columns(TABLES[name].arrow_schema)
            assert found.to_pylist() == ordered(name, wanted[name])
            warehouse.replace(TABLES[name], staged[name], [DAY, NEXT_DAY])
    assert ordered(JOB_SLOWDOWN, warehouse.rows(TABLES[JOB_SLOWDOWN])) == ordered(
        JOB_SLOWDOWN, wanted[JOB_SLOWDOWN]
    )


def test_units_that_share_row_groups_are_simulated_once_each_with_those_without_rows(
    spark: SparkSession, test_settings: Settings, tmp_path: Path
) -> None:
    warehouse = Warehouse(spark, str(tmp_path))
    lines = table_rows(RANK_STEPS, [{"job_id": "a"}, {"job_id": "b", "step": 8}, {"job_id": "b"}])
    warehouse.replace(TABLES[RANK_STEPS], lines, [DAY])
    jobs = table_rows(JOBS, [{"job_id": name} for name in "abc"])
    found = results_of(simulated(warehouse, test_settings, jobs, [DAY], None).toArrow().to_batches())
    rows = ordered(JOB_SLOWDOWN, found[JOB_SLOWDOWN])
    assert [row["job_id"] for row in rows] == ["a", "b", "c"]
    assert [row["status"] == Status.NO_OPS for row in rows] == [False, False, True]


def test_a_task_that_fails_leaves_no_file(spark: SparkSession, tmp_path: Path) -> None:
    shares = shares_of(UNITS, 2)
    made = pa.Table.from_batches(batches(shares))
    broken = pc.if_else(pc.equal(made["place"], 1), b"no rows", made["rows"])
    frame = spark.createDataFrame(made.set_column(2, "rows", broken), from_arrow_schema(RESULT_SCHEMA))
    with pytest.raises(Exception, match="ArrowInvalid"):
        stage_results(frame, shares, str(tmp_path), [DAY, NEXT_DAY])
    assert [*tmp_path.rglob("*.parquet")] == []


def test_few_staged_rows_of_a_unit_make_one_file_with_the_others_without_spark(tmp_path: Path) -> None:
    root, table, late = str(tmp_path), TABLES[STEP_SLOWDOWN], {"job_id": "late"}
    without_spark = cast("SparkSession", None)
    before = table_rows(STEP_SLOWDOWN, [{}, {**late, "step": 1}, {**late, "step": 2}])
    Warehouse(without_spark, root).replace(table, before, [DAY])
    staging, new = Staging(root, "run"), table_rows(STEP_SLOWDOWN, [{**late, "step": 7}])
    staging.write_sorted(table, new)
    with staged_rows(staging.close(), root, [STEP_SLOWDOWN]) as staged:
        unit = Unit(DAY, "late", new["run_id"][0].as_py())
        Warehouse(without_spark, root).replace(table, staged[STEP_SLOWDOWN], [DAY], [unit])
    after = Warehouse(without_spark, root)
    assert after.rows(table).to_pylist() == [before.to_pylist()[0], *new.to_pylist()]
    assert len(after.files(table, [DAY])) == 1
    assert len([*tmp_path.rglob("part-run-*")]) == 0, (
        "the staged file is removed, as its rows were written to another file"
    )


def test_files_of_a_run_that_no_commit_takes_are_swept(tmp_path: Path) -> None:
    def write(run: str, day: date) -> Staging:
        staging = Staging(str(tmp_path), run)
        staging.write_sorted(TABLES[STEP_SLOWDOWN], table_rows(STEP_SLOWDOWN, [{"log_date": day}]))
        return staging

    (other,), days = write("other", DAY).close(), (DAY, NEXT_DAY)
    with swept(str(tmp_path), "mine", [STEP_SLOWDOWN], days) as kept:
        write("mine", NEXT_DAY).close()  # by a task that Spark ran twice
        kept.extend(write("mine", DAY).close())
    there = {file.name for file in tmp_path.rglob("*.parquet")}
    assert there == {Path(file.path).name for file in (other, *kept)}
    with pytest.raises(KeyboardInterrupt), swept(str(tmp_path), "mine", [STEP_SLOWDOWN], days):
        raise KeyboardInterrupt
    assert [file.name for file in tmp_path.rglob("*.parquet")] == [Path(other.path).name]


def test_an_error_is_the_one_raised_where_its_files_cannot_be_removed_either(tmp_path: Path) -> None:
    (tmp_path / STEP_SLOWDOWN / "part-of-no-file").mkdir(parents=True)
    folder = StagedFile(STEP_SLOWDOWN, (), "part-of-no-file", 1, 1, "{}", is_sound=True)
    gone = folder._replace(path="part-that-is-gone")
    for files in ([gone], [gone, folder]):
        with (
            pytest.raises(KeyError, match="the reason"),
            staged_rows(files, str(tmp_path), [STEP_SLOWDOWN]),
        ):
            raise KeyError("the reason")


@pytest.mark.parametrize("kept_bytes", [None, 0, rows._KEPT_BYTES])
def test_gates_judge_staged_rows_as_those_of_the_driver(
    kept_bytes: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gates give staged rows, in a folder or a store, the same results as rows in the driver's memory."""
    monkeypatch.setattr(rows, "_KEPT_BYTES", kept_bytes)
    root = str(tmp_path) if kept_bytes is None else tmp_path.as_uri()
    tables = results_of(batches(shares_of(UNITS, 1)))
    tables[STEP_SLOWDOWN] = tables[STEP_SLOWDOWN].slice(1)
    staging = Staging(str(tmp_path), "run")
    for name, table in tables.items():
        staging.write_sorted(TABLES[name], table)
    files = staging.close()
    staged: dict[str, Rows] = {
        name: StagedRows(name, [file for file in files if file.table == name], root) for name in tables
    }
    in_driver = incomplete_units({**tables}).rows.to_pylist()
    assert incomplete_units(staged).rows.to_pylist() == in_driver != []
    twice = StagedRows(JOB_SLOWDOWN, [file for file in files if file.table == JOB_SLOWDOWN] * 2, root)
    assert audit(TABLES[JOB_SLOWDOWN], staged[JOB_SLOWDOWN]) == []
    (check,) = audit(TABLES[JOB_SLOWDOWN], twice)
    assert (check.expectation, check.rows) == ("key_is_unique", 2 * len(UNITS))
