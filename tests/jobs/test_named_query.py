"""The command of named queries: its answer over a period, its names, and what it says of wrong arguments."""

import json

import pytest

from jobs.named_query import main
from schemas.queries import QUERY_NAMES
from schemas.vocabulary import JOB_SLOWDOWN, JOBS
from tests.jobs.conftest import Ask
from tests.jobs.reading.warehouses import warehouse_of
from tests.support.examples import NEXT_DAY, table_rows


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    rows = {
        name: table_rows(name, [{}, {"log_date": NEXT_DAY, "job_id": "other"}])
        for name in (JOB_SLOWDOWN, JOBS)
    }
    return warehouse_of(tmp_path_factory.mktemp("warehouse"), **rows).root


def test_the_answer_over_a_period(ask: Ask) -> None:
    (row,) = json.loads(ask(main, "straggling", "--format", "json").out)
    assert (row["jobs"], row["straggling_share"], row["gpu_hours"]) == (2, 1.0, 384.0)
    (row,) = json.loads(ask(main, "straggling", "--format", "json", "--from", NEXT_DAY).out)
    assert row["jobs"] == 1


def test_every_name_is_listed_with_its_meaning(ask: Ask) -> None:
    said = ask(main, "--help").out
    assert all(f"\n  {name} " in said for name in QUERY_NAMES)
