"""The strict reading of single lines."""

from typing import Any

import pyarrow as pa
import pytest

from schemas.vocabulary import REJECT_REASONS
from tests.line_cases import BAD_LINES, JOB, ODD_LINES, PLAIN_LINES, RUN, SIZES, line, row
from udfs.landed_rows import LANDED_SCHEMA
from jobs.landing.formats.rank_log_line import LineError, check_lines, read_line

UNIT = {"job_id": JOB, "run_id": RUN, **SIZES}
UNKNOWN = UNIT | dict.fromkeys(SIZES)


def rejection(text: bytes, unit: dict[str, Any] | None = None) -> LineError:
    with pytest.raises(LineError) as caught:
        read_line(text, unit or UNIT)
    return caught.value


@pytest.mark.parametrize("defect", BAD_LINES)
def test_bad_line_is_rejected_with_the_first_reason(defect: str) -> None:
    bad = BAD_LINES[defect]
    error = rejection(bad.text)
    assert (error.reason, bad.detail in error.detail) == (bad.reason, True), error.detail


@pytest.mark.parametrize("case", [*PLAIN_LINES, *ODD_LINES])
def test_good_line_becomes_its_row(case: str) -> None:
    good = (PLAIN_LINES | ODD_LINES)[case]
    assert {"tp_rank": None, "cp_rank": None, "host": None, "gpu": None} | read_line(
        good.text, UNIT
    ) == good.row


def test_every_reason_of_a_line_has_a_case() -> None:
    of_one_line = set(REJECT_REASONS) - {"duplicate_rank_step", "unreadable_file"}
    assert {bad.reason for bad in BAD_LINES.values()} == of_one_line


def test_without_a_good_manifest_only_negative_ranks_are_out_of_range() -> None:
    assert read_line(line("tp_rank", rank=10**6, dp_rank=99), UNKNOWN)["rank"] == 10**6
    assert rejection(line(dp_rank=-1), UNKNOWN).reason == "rank_out_of_range"
    assert rejection(line(rank=2**31), UNKNOWN).reason == "rank_out_of_range"


def test_tp_rank_must_be_there_where_tensor_parallelism_is() -> None:
    error = rejection(line("tp_rank"), UNIT | {"tp_size": 2})
    assert (error.reason, error.detail) == ("missing_field", "tp_rank is missing")
    assert read_line(line("tp_rank"), UNIT)["tp_rank"] is None


def test_a_job_id_that_is_a_number_is_no_text() -> None:
    assert rejection(line(job_id=7), UNIT | {"job_id": "7"}).reason == "bad_type"
    assert read_line(line(job_id="7"), UNIT | {"job_id": "7"})["rank"] == 1


def test_batches_keep_place_and_text() -> None:
    place = {"log_date": None, "job_id": JOB, "run_id": RUN, "source_file": "f", "block_start": 0}
    lines = [
        place | SIZES | {"position": 5, "suspect": line()},
        place | SIZES | {"position": 6, "suspect": b"\xff" + b"x" * 3000},
    ]
    batch = pa.RecordBatch.from_pylist(
        lines, schema=pa.schema([*batch_fields(), *(pa.field(name, pa.int32()) for name in SIZES)])
    )
    (checked,) = check_lines(iter([batch]))
    good, bad = checked.to_pylist()
    assert checked.schema == LANDED_SCHEMA
    assert (good["state"], good["position"], good["suspect"]) == ("row", 5, None)
    assert {name: good[name] for name in row()} == row()
    assert (bad["state"], bad["position"], bad["reason"], bad["rank"]) == ("reject", 6, "not_json", None)
    assert bad["text"] == "\ufffd" + "x" * 1999


def batch_fields() -> list[pa.Field]:
    names = ("log_date", "job_id", "run_id", "source_file", "block_start", "position", "suspect")
    return [LANDED_SCHEMA.field(name) for name in names]
