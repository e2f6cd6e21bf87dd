"""Test the command headline, which answers named queries: periods, names, and wrong arguments."""

import json
from pathlib import Path
from typing import Any

import pytest

from jobs.named_query import main
from schemas.queries import QUERY_NAMES
from schemas.vocabulary import JOB_SLOWDOWN, JOBS, WORKER_SLOWDOWN
from tests.jobs.conftest import Ask
from tests.jobs.reading.warehouses import warehouse_of
from tests.support.examples import DAY, NEXT_DAY, table_rows


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


@pytest.mark.parametrize("period", [("--from", "2026-04-01"), ("--to", "2025-12-31")])
def test_a_period_without_rows_is_said(ask: Ask, period: tuple[str, str]) -> None:
    said = ask(main, "trend", *period)
    days = f"the first is {DAY}, the last {NEXT_DAY}"
    assert (said.status, said.err) == (0, f"no day of this period has rows: {days}\n")
    assert ask(main, "trend", "--from", str(NEXT_DAY)).err == ""


def test_units_that_were_not_analysed_are_named_beside_what_to_fix(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """fix_first is the only named query that also prints how many units of the period were not analysed."""
    units: list[dict[str, Any]] = [{}, {"job_id": "a", "status": "no_ops"}, {"log_date": NEXT_DAY}]
    rows = table_rows(JOB_SLOWDOWN, units)
    monkeypatch.setenv("STRAGGLER_WAREHOUSE", warehouse_of(tmp_path, **{JOB_SLOWDOWN: rows}).root)
    says = "1 unit was not analysed and is missing in fix_first: SELECT log_date, job_id, run_id, status, "
    assert ask(main, "fix_first").err.startswith(says)
    assert ask(main, "fix_first", "--to", DAY).err.endswith(f"AND log_date <= DATE'{DAY}'\n")
    assert ask(main, "fix_first", "--from", NEXT_DAY).err == ask(main, "straggling").err == ""


def test_every_name_is_listed_with_its_meaning(ask: Ask) -> None:
    said = ask(main, "--help").out
    assert all(f"\n  {name} " in said for name in QUERY_NAMES)


def test_ten_hosts_matter_unless_a_program_asks(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = [{"host": f"node-{number:02d}", "pp_rank": number, "dp_rank": 0} for number in range(12)]
    root = warehouse_of(tmp_path, **{WORKER_SLOWDOWN: table_rows(WORKER_SLOWDOWN, hosts)}).root
    monkeypatch.setenv("STRAGGLER_WAREHOUSE", root)
    counts = {
        how: len(main_out.splitlines()) - 1
        for how, main_out in (
            ("people", ask(main, "hosts").out),
            ("all", ask(main, "hosts", "--limit", "0").out),
            ("three", ask(main, "hosts", "--limit", "3").out),
            ("csv", ask(main, "hosts", "--format", "csv").out),
        )
    }
    assert counts == {"people": 10, "all": 12, "three": 3, "csv": 12}
    assert ask(main, "hosts").err == "10 of 12 slow hosts are shown, of 12 hosts (--limit 0 shows all)\n"
