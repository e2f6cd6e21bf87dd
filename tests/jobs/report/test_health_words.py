"""Test the sentences about failed health checks that may explain a slow culprit."""

from typing import Any

from jobs.report.cause_words import explanations
from jobs.report.rows import UnitTables
from schemas.vocabulary import CAUSE_EVIDENCE
from tests.support.examples import table_rows


def said(*changes: dict[str, Any]) -> list[str]:
    rows = table_rows(CAUSE_EVIDENCE, list(changes)).to_pylist()
    return explanations(UnitTables({}, further={CAUSE_EVIDENCE: rows}), "slow_worker", 0)


def test_an_explanation_names_the_check_since_when_and_how_often_it_fails_elsewhere() -> None:
    (found,) = said({})
    assert found == (
        "node-0123, gpu 3: throttle_thermal (warning) since 2026-01-05 08:01 UTC; fails on 2 of 3 host-days "
        "that are slow and 0 of 40 that are not"
    )
    (found,) = said({"device": -1, "component": "node", "began_before": True})
    assert found.startswith("node-0123, node: throttle_thermal (warning) since before 2026-01-05 08:01 UTC;")


def test_only_what_explains_this_culprit_is_said_the_least_by_chance_first() -> None:
    others: list[dict[str, Any]] = [{"explains": False}, {"culprit": 1}, {"cause": "pause"}]
    many: list[dict[str, Any]] = [{"check_name": f"c{n}", "chance": 1e-3 / n} for n in range(1, 6)]
    found = said(*others, *many)
    assert [each.split(": ")[1].split(" ")[0] for each in found] == ["c5", "c4", "c3"]
    assert explanations(UnitTables({}), "slow_worker", 0) == []
