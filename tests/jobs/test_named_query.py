"""The command of named queries: its answer over a period, its names, and what it says of wrong arguments."""

import json

import pytest

from jobs.named_query import main
from schemas.queries import QUERY_NAMES
from schemas.vocabulary import JOB_SLOWDOWN, JOBS
from tests.jobs.reading.warehouses import warehouse_of
from tests.support.examples import NEXT_DAY, table_rows


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    rows = {
        name: table_rows(name, [{}, {"log_date": NEXT_DAY, "job_id": "other"}])
        for name in (JOB_SLOWDOWN, JOBS)
    }
    return warehouse_of(tmp_path_factory.mktemp("warehouse"), **rows).root


def test_the_answer_over_a_period(capsys: pytest.CaptureFixture[str], warehouse: str) -> None:
    asked = ["straggling", "--warehouse", warehouse, "--format", "json"]
    assert main(asked) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["jobs"], row["straggling_share"], row["gpu_hours"]) == (2, 1.0, 384.0)
    assert main([*asked, "--from", str(NEXT_DAY)]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["jobs"] == 1


def test_a_period_that_ends_before_it_begins_is_a_wrong_argument(
    capsys: pytest.CaptureFixture[str], warehouse: str
) -> None:
    assert main(["trend", "--warehouse", warehouse, "--from", "2026-02-01", "--to", "2026-01-01"]) == 2
    assert "--to 2026-01-01 lies before --from 2026-02-01" in capsys.readouterr().err


def test_a_warehouse_without_tables_is_a_wrong_argument(
    capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert main(["trend", "--warehouse", str(tmp_path_factory.mktemp("empty"))]) == 2
    assert "no tables in" in capsys.readouterr().err.splitlines()[-1]


def test_every_name_is_listed_with_its_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    printed = capsys.readouterr().out
    assert all(f"\n  {name} " in printed for name in QUERY_NAMES)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "Missing argument 'NAME'"),
        (["nope"], "'nope' is unknown: choose from coverage"),
        (["trend", "--from", "May"], "not a date"),
    ],
)
def test_wrong_arguments_give_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    assert main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert complaint in line
