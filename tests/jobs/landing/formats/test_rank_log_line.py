"""The strict reading of single lines."""

from typing import Any

import pytest

from jobs.landing.formats.rank_log_line import LineError, read_line
from schemas.vocabulary import FILE_REASONS, REJECT_REASONS
from tests.support.line_cases import BAD_LINES, JOB, ODD_LINES, PLAIN_LINES, RUN, SIZES, line

UNIT = {"job_id": JOB, "run_id": RUN, **SIZES}
NESTING = 64
UNKNOWN = UNIT | dict.fromkeys(SIZES)


def rejection(text: bytes, unit: dict[str, Any] | None = None) -> LineError:
    with pytest.raises(LineError) as caught:
        read_line(text, unit or UNIT, NESTING)
    return caught.value


@pytest.mark.parametrize("defect", BAD_LINES)
def test_bad_line_is_rejected_with_the_first_reason(defect: str) -> None:
    bad = BAD_LINES[defect]
    error = rejection(bad.text)
    assert (error.reason, bad.detail in error.detail) == (bad.reason, True), error.detail


@pytest.mark.parametrize("case", [*PLAIN_LINES, *ODD_LINES])
def test_good_line_becomes_its_row(case: str) -> None:
    good = (PLAIN_LINES | ODD_LINES)[case]
    absent = dict.fromkeys(("tp_rank", "cp_rank", "host", "gpu"))
    assert absent | read_line(good.text, UNIT, NESTING) == good.row


def test_every_reason_of_a_line_has_a_case() -> None:
    of_one_line = set(REJECT_REASONS) - {"duplicate_rank_step", "line_too_long", *FILE_REASONS}
    assert {bad.reason for bad in BAD_LINES.values()} == of_one_line


def test_without_a_good_manifest_only_negative_ranks_are_out_of_range() -> None:
    assert read_line(line("tp_rank", rank=10**6, dp_rank=99), UNKNOWN, NESTING)["rank"] == 10**6
    assert rejection(line(dp_rank=-1), UNKNOWN).reason == "rank_out_of_range"
    assert rejection(line(rank=2**31), UNKNOWN).reason == "rank_out_of_range"


def test_tp_rank_must_be_there_where_tensor_parallelism_is() -> None:
    error = rejection(line("tp_rank"), UNIT | {"tp_size": 2})
    assert (error.reason, error.detail) == ("missing_field", "tp_rank is missing")
    assert read_line(line("tp_rank"), UNIT, NESTING)["tp_rank"] is None


def test_a_job_id_that_is_a_number_is_no_text() -> None:
    assert rejection(line(job_id=7), UNIT | {"job_id": "7"}).reason == "bad_type"
    assert read_line(line(job_id="7"), UNIT | {"job_id": "7"}, NESTING)["rank"] == 1
