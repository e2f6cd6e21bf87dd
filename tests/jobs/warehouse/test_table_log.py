"""Rows are counted from the table's log, or from the footers of files without counts in the log."""

import json
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from jobs.warehouse.tables import Warehouse
from jobs.warehouse.upkeep import remove_days
from schemas.tables import TABLES
from schemas.vocabulary import STEP_SLOWDOWN
from tests.support.examples import DAY, NEXT_DAY, table_rows

TABLE = TABLES[STEP_SLOWDOWN]


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    """A table with two rows of one day and one row of the next, whose log lacks statistics."""
    found = Warehouse(cast("SparkSession", None), str(tmp_path))
    found.replace(TABLE, table_rows(STEP_SLOWDOWN, [{"step": 1}, {"step": 2}]), [DAY])
    found.replace(TABLE, table_rows(STEP_SLOWDOWN, [{"log_date": NEXT_DAY}]), [NEXT_DAY])
    for commit in (tmp_path / STEP_SLOWDOWN / "_delta_log").glob("*.json"):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        for action in actions:
            action.get("add", {}).pop("stats", None)
        commit.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    return found


def test_rows_of_files_without_statistics_are_counted(warehouse: Warehouse) -> None:
    assert warehouse.rows_by_day(TABLE, [DAY, NEXT_DAY]) == {DAY: 2, NEXT_DAY: 1}
    assert warehouse.rows_by_day(TABLE, [NEXT_DAY]) == {NEXT_DAY: 1}


def test_removed_rows_of_files_without_statistics_are_counted(warehouse: Warehouse) -> None:
    assert remove_days(warehouse, TABLE, NEXT_DAY) == 2
    assert warehouse.rows_by_day(TABLE, [DAY, NEXT_DAY]) == {NEXT_DAY: 1}
