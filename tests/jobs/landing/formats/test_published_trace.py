"""Published traces are converted from one row per op to one row per (rank, step)."""

import io
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.landing.formats.published_trace import read_trace
from jobs.landing.formats.rows import LIMITS, Bounds, FileError, Reject, table_of
from schemas.vocabulary import OP_CODES

UNBOUNDED = dict.fromkeys(LIMITS)
LISTS = ("op", "start_us", "duration_us", "microbatch", "model_chunk")


def ops(*changes: dict[str, Any]) -> pd.DataFrame:
    """Return ops of one rank and step in the columns of published files, with one op for each mapping."""
    good = {"dp_rank": 0, "stage": 1, "rank": 2, "step": 16, "optype": "gc", "start_ts": 0.0, "duration": 0.5}
    good |= {"seq_id": 0, "mc": -1, "mb_id": -1, "gmc": -1}
    frame = pd.DataFrame([good | change for change in changes])
    small = {"dp_rank": "int8", "stage": "int8", "rank": "int16", "mc": "int8", "mb_id": "int8"}
    return frame.astype(small | {"start_ts": "float32", "duration": "float32", "optype": "category"})


def parquet(frame: pd.DataFrame) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pandas(frame), sink)
    return sink.getvalue()


def rows(frame: pd.DataFrame, **limits: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table_of(
        read_trace(io.BytesIO(parquet(frame)), UNBOUNDED | limits, Bounds())[0]
    ).to_pylist()
    return found


def rejects(content: bytes, **limits: int) -> list[Reject]:
    return read_trace(io.BytesIO(content), UNBOUNDED | limits, Bounds())[1]


def test_times_become_microseconds_of_float64() -> None:
    (row,) = rows(ops({"start_ts": 0.1, "duration": 0.2}))
    assert row["start_us"] == [float(pd.Series([0.1], dtype="float32").astype("float64").iloc[0]) * 1e6]
    assert (row["step"], row["rank"], row["dp_rank"], row["pp_rank"]) == (16, 2, 0, 1)


def test_ops_are_ordered_by_start_and_ties_stay_as_recorded() -> None:
    (row,) = rows(
        ops(
            {"optype": "optimizer", "start_ts": 2.0},
            {"optype": "forward-recv", "start_ts": 1.0, "mb_id": 5},
            {"optype": "backward-recv", "start_ts": 1.0, "mb_id": 4},
            {"optype": "forward-recv", "start_ts": 1.0, "mb_id": 3},
            {"optype": "gc", "start_ts": 0.0, "mc": 7},
        )
    )
    names = ["gc", "forward-recv", "backward-recv", "forward-recv", "optimizer"]
    assert row["op"] == [OP_CODES[name] for name in names]
    assert row["microbatch"] == [-1, 5, 4, 3, -1]
    assert row["model_chunk"] == [7, -1, -1, -1, -1]


def test_every_rank_and_step_is_a_row_wherever_its_ops_stand() -> None:
    found = rows(ops({"rank": 1}, {"rank": 0, "step": 17}, {"rank": 1}, {"rank": 0}))
    assert [(row["rank"], row["step"], len(row["op"])) for row in found] == [
        (0, 16, 1),
        (0, 17, 1),
        (1, 16, 2),
    ]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"optype": "forward"}, "unknown_op"),
        ({"optype": None}, "bad_type"),
        ({"start_ts": None}, "bad_type"),
        ({"start_ts": -1.0}, "negative_time"),
        ({"duration": -1.0}, "negative_time"),
        ({"duration": float("inf")}, "not_finite"),
        ({"rank": -1, "step": 17}, "rank_out_of_range"),
        ({"rank": 4, "step": 17}, "rank_out_of_range"),
        ({"dp_rank": 2}, "rank_out_of_range"),
        ({"stage": 0}, "rank_out_of_range"),
    ],
)
def test_a_bad_op_costs_its_rank_and_step_only(change: dict[str, Any], reason: str) -> None:
    frame = ops({"step": 16}, {"step": 17}, {"step": 17} | change, {"step": 18})
    sizes = {"world_size": 4, "dp_size": 2, "pp_size": 2}
    (rejected,) = rejects(parquet(frame), **sizes)
    assert (rejected.reason, rejected.line, rejected.text) == (
        reason,
        1 if change.get("rank") == -1 else rejected.line,
        None,
    )
    assert rejected.detail
    assert {(row["step"], row["rank"]) for row in rows(frame, **sizes)} >= {(16, 2), (18, 2)}


def test_a_null_start_is_a_null_and_not_a_number() -> None:
    frame = ops({}, {}).astype({"start_ts": "object"})
    frame.loc[0, "start_ts"] = None
    table = pa.Table.from_pandas(frame.assign(start_ts=pd.array([None, 1.0], dtype="Float32")))
    sink = io.BytesIO()
    pq.write_table(table, sink)
    assert [each.reason for each in rejects(sink.getvalue())] == ["bad_type"]


def test_an_empty_trace_has_no_rows() -> None:
    assert rows(ops({}).iloc[:0]) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"PAR1 and then nothing", "not readable as Parquet"),
        (parquet(ops({}))[:-40], "not readable as Parquet"),
        (parquet(ops({}).drop(columns=["mb_id", "step"])), "no column step, mb_id"),
        (parquet(ops({}).assign(step="sixteen")), "a column of another type"),
        (parquet(ops({}).assign(rank=2**40)), "a column of another type"),
    ],
)
def test_a_file_that_is_no_trace_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(FileError, match=message):
        rejects(content)


def test_a_footer_with_too_many_ops_is_enough_to_refuse_a_file() -> None:
    sink = io.BytesIO(parquet(ops(*({} for _ in range(50)))))
    with pytest.raises(FileError, match="50 ops, more than 49") as refused:
        read_trace(sink, UNBOUNDED, Bounds(trace_ops=49))
    assert refused.value.reject.reason == "file_too_large"
    found, _ = read_trace(sink, UNBOUNDED, Bounds(trace_ops=50))
    assert found.lengths.tolist() == [50]


def test_names_of_any_length_are_stored_once() -> None:
    long = ops(*({"optype": "x" * 1_000_000} for _ in range(3)), {"step": 17})
    assert [each.reason for each in rejects(parquet(long))] == ["unknown_op"]


@pytest.mark.parametrize("trace", ["SE", "ST"])
def test_published_files_keep_every_op_and_the_order_within_its_type(
    trace: str, published_traces: Path
) -> None:
    file = published_traces / trace / f"trace-{trace}.parquet"
    with file.open("rb") as content:
        read, rejected = read_trace(content, UNBOUNDED, Bounds())
    assert rejected == []
    found = table_of(read).to_pandas()
    exploded = found[["rank", "step", *LISTS]].explode(list(LISTS))
    exploded["seq_id"] = exploded.groupby(["rank", "step", "op"]).cumcount()
    recorded = pd.read_parquet(file)
    recorded["op"] = recorded["optype"].astype(str).map(OP_CODES)
    key = ["rank", "step", "op", "seq_id"]
    both = exploded.merge(recorded, on=key, how="outer", validate="one_to_one", indicator=True)
    assert set(both["_merge"]) == {"both"}
    assert (both["start_us"].astype("float64") == both["start_ts"].astype("float64") * 1e6).all()
    assert (both["duration_us"].astype("float64") == both["duration"].astype("float64") * 1e6).all()
    assert (both["microbatch"] == both["mb_id"]).all()
    assert (both["model_chunk"] == both["mc"]).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("start_s", "reason"), [(1.7e308, "not_finite"), (-1.7e308, "negative_time")])
def test_times_that_no_microseconds_hold_cost_their_step(start_s: float, reason: str) -> None:
    trace = pa.Table.from_pandas(ops({}, {"step": 17}))
    place = trace.column_names.index("start_ts")
    sink = io.BytesIO()
    pq.write_table(trace.set_column(place, "start_ts", pa.array([start_s, 0.0])), sink)
    assert [each.reason for each in rejects(sink.getvalue())] == [reason]
