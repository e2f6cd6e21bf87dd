"""Test which rows gates accept and refuse, the messages, and rules that cannot be evaluated."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from jobs.gates.audit import audit, broken_rows, warnings
from jobs.gates.checks import KEY_EXPECTATION, Check, GateError, GateRefusedError
from schemas.table import Expectation, Table
from schemas.tables import TABLES
from schemas.vocabulary import (
    REJECTS,
    STAGE_SLOWDOWN,
)
from tests.support.examples import DAY, table_rows

STAGES = TABLES[STAGE_SLOWDOWN]


def refused(name: str, changes: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return how many example rows with the given changes each expectation of a table refuses."""
    found = audit(TABLES[name], table_rows(name, changes))
    assert {refusal.table for refusal in found} == {name}
    return {refusal.expectation: refusal.rows for refusal in found}


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_a_good_row_passes_every_expectation_of_its_table(table: Table) -> None:
    assert audit(table, table_rows(table.name)) == []


def test_every_kind_of_violation_of_a_column_is_refused_and_counted() -> None:
    # Any finite slowdown is valid, even a negative one.
    rows: list[dict[str, Any]] = [
        {},
        {"pp_rank": 1, "slowdown": -0.5},
        {"pp_rank": 2, "job_id": None},
        {"pp_rank": 3, "slowdown": None},
        {"pp_rank": 4, "slowdown": math.nan},
        {"pp_rank": 5, "slowdown": math.inf},
        {"pp_rank": 6, "slowdown": -math.inf},
        {"pp_rank": -1},
        {"pp_rank": -2},
    ]
    assert refused(STAGE_SLOWDOWN, rows) == {
        "job_id_not_null": 1,
        "slowdown_not_null": 1,
        "slowdown_finite": 4,  # NaN, two infinities and null
        "pp_rank_in_range": 2,
    }


def test_equal_keys_are_refused_and_every_row_that_has_one_counted() -> None:
    whole_file = {"line": None, "reason": "unreadable_file", "text": None}
    rows: list[dict[str, Any]] = [{}, {"detail": "again"}, whole_file, whole_file, whole_file, {"line": 4}]
    assert refused(REJECTS, rows) == {KEY_EXPECTATION: 5}


def test_a_frame_that_is_not_the_table_is_refused_with_every_difference() -> None:
    rows = pa.table({**table_rows(STAGE_SLOWDOWN).to_pydict(), "slowdown": ["1"], "x": [1]})
    rows = rows.drop_columns("pp_rank")
    assert audit(STAGES, rows) == [
        Check(
            STAGE_SLOWDOWN,
            "schema",
            1,
            "column pp_rank is missing (wanted int32); column slowdown is string (wanted double); "
            "column x is not in the table",
        ),
    ]


def test_the_message_names_table_expectation_and_rows() -> None:
    refusals = [Check("jobs", f"e{number}", 1_000 + number, "what should be") for number in range(7)]
    assert str(GateRefusedError(refusals[:1], "/w/_refused/ingest")) == (
        "gate refused, nothing of this phase was published: table jobs, expectation e0, 1,000 rows: "
        "what should be (refused rows are kept in /w/_refused/ingest)"
    )
    assert str(GateRefusedError(refusals)).endswith("expectation e4, 1,004 rows: what should be; and 2 more")


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("nope > 1", "nope"),  # an error when the query is parsed
        ("1 / (pp_rank - pp_rank) > 1", "zero"),  # an error when the query runs
        ("pp_rank >", "missing"),
    ],
)
def test_an_expectation_that_cannot_be_evaluated_is_an_error_and_not_a_pass(
    condition: str, reason: str
) -> None:
    with pytest.raises(
        GateError, match=f"stage_slowdown: expectation odd could not be evaluated: .*{reason}"
    ):
        audit(STAGES, table_rows(STAGE_SLOWDOWN), [Expectation("odd", condition, "odd")])


def test_a_condition_that_comes_out_as_null_is_a_violation() -> None:
    odd = Expectation("odd", "CAST(null AS boolean)", "never null")
    found = audit(STAGES, table_rows(STAGE_SLOWDOWN), [odd])
    assert found == [Check(STAGE_SLOWDOWN, "odd", 1, "never null", (DAY,))]


def test_a_rule_that_only_warns_is_found_among_published_rows_and_others_are_not() -> None:
    """`warnings` returns only rules of severity "warns" that published rows break, not rules that refuse."""
    rows = table_rows(REJECTS, [{}, {"line": 4, "text": "x" * 2001, "source_file": None}])
    broken = {refusal.expectation: refusal.severity for refusal in audit(TABLES[REJECTS], rows)}
    assert broken == {"text_is_cut": "warns", "source_file_not_null": "refuses"}
    (found,) = warnings([(TABLES[REJECTS], rows), (STAGES, table_rows(STAGE_SLOWDOWN))])
    assert (found.name, found.rows, found.severity) == ("rejects.text_is_cut", 1, "warns")


def test_broken_rows_are_listed_with_what_they_break() -> None:
    changes: list[dict[str, Any]] = [{}, {"pp_rank": 1, "slowdown": None}, {"pp_rank": 2}, {"pp_rank": 2}]
    rows = table_rows(STAGE_SLOWDOWN, changes)
    extra = Expectation("first", "pp_rank = 0", "the first stage")
    found = broken_rows(STAGES, rows, [extra]).select(["pp_rank", "broken"]).to_pylist()
    assert sorted((row["pp_rank"], row["broken"]) for row in found) == [
        (1, ["slowdown_not_null", "slowdown_finite", "first"]),
        (2, ["first", "key_is_unique"]),
        (2, ["first", "key_is_unique"]),
    ]
    assert broken_rows(STAGES, rows.drop_columns("pp_rank")).num_rows == 4
