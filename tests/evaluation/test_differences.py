"""Equal runs show no difference, and a fault in only one of two runs is found with its cause."""

import json

import pytest

from tests.evaluation.differences import equal, main, slower


def test_equal_runs_differ_by_nothing() -> None:
    rows = [row for seed in range(5002, 5008) if (row := equal(seed, 3_000, 0.99)) is not None]
    assert len(rows) > 2
    assert not any(row["differs"] or row["fails"] for row in rows if not row["other GPUs"])


def test_a_fault_costs_what_it_costs() -> None:
    rows = [row for seed in range(5000, 5010) if (row := slower(seed, 3_000, 0.99)) is not None]
    large = [row for row in rows if row["true"] > 5]
    assert large
    assert all(row["cause"] and not row["faster"] for row in large)


def test_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--pairs", "2", "--seed", "5002", "--most-ops", "2000", "--format", "json"]) == 0
    read = json.loads(capsys.readouterr().out)
    assert read["heading"].startswith("2 pairs of equal runs and as many with a fault, of seeds 5002 to ")
    assert sum(row["pairs"] for row in read["sections"][0]["rows"]) == 2
