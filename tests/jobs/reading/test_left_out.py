"""A note says how many units fix_first leaves out, for all days or a period, and gives SQL to list them."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from jobs.reading.database import Database
from jobs.reading.duckdb_reader import DuckDbReader
from jobs.reading.left_out import not_in_fix_first, reads_fix_first
from schemas.vocabulary import JOB_SLOWDOWN
from tests.jobs.reading.warehouses import warehouse_of
from tests.support.examples import DAY, NEXT_DAY, table_rows

LISTS = "SELECT log_date, job_id, run_id, status, status_detail FROM job_slowdown WHERE status <> 'analysed'"
WERE = f"were not analysed and are missing in fix_first: {LISTS}"
ONE = [{}, {"job_id": "a", "status": "no_ops"}]
SEVERAL = [
    *ONE,
    {"job_id": "a", "status": "no_ops", "log_date": NEXT_DAY},
    {"job_id": "b", "status": "high_discrepancy"},
]


def said(root: Path, units: Sequence[Mapping[str, Any]], *period: date | None) -> tuple[str, list[object]]:
    """Return the note on units that fix_first leaves out, and the job ids that the note's SQL lists.

    period : first and last day, if given
    """
    warehouse = warehouse_of(root, **{JOB_SLOWDOWN: table_rows(JOB_SLOWDOWN, units)}).root
    with closing(DuckDbReader(Database(warehouse))) as reader:
        text = not_in_fix_first(reader, *period)
        return text, sorted(row[1] for row in reader.ask(text.partition(": ")[2]).rows) if text else []


@pytest.mark.parametrize(
    ("units", "period", "says", "jobs"),
    [
        (ONE[:1], (), "", []),
        (ONE, (), f"1 unit was not analysed and is missing in fix_first: {LISTS}", ["a"]),
        (SEVERAL, (), f"3 units of 2 jobs {WERE}", ["a", "a", "b"]),
        (SEVERAL[:3], (), f"2 units of 1 job {WERE}", ["a", "a"]),
        (SEVERAL, (NEXT_DAY, None),
         f"1 unit was not analysed and is missing in fix_first: {LISTS} AND log_date >= DATE'{NEXT_DAY}'",
         ["a"]),
        (SEVERAL, (None, DAY),
         f"2 units of 2 jobs {WERE} AND log_date <= DATE'{DAY}'", ["a", "b"]),
    ],
    ids=["none", "one", "several", "one job", "since", "until"],
)  # fmt: skip
def test_units_that_were_not_analysed_are_counted_and_listed(
    tmp_path: Path,
    units: Sequence[Mapping[str, Any]],
    period: tuple[date | None, ...],
    says: str,
    jobs: list[object],
) -> None:
    assert said(tmp_path, units, *period) == (says, jobs)


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("SELECT cause FROM FIX_FIRST LIMIT 1", True),
        ("WITH f AS (SELECT * FROM fix_first) SELECT count(*) FROM f", True),
        ("DESCRIBE fix_first", False),
        ("SHOW TABLES", False),
        ("SELECT * FROM fix_parts", False),
    ],
)
def test_only_who_asks_for_its_rows_is_meant(sql: str, *, wanted: bool) -> None:
    assert reads_fix_first(sql) is wanted
