"""Other tools' runs are recognised by content or refused with a reason; each file has an account."""

import gzip
import json
import re
from pathlib import Path

import pyarrow as pa
import pytest

from jobs.landing.formats.foreign import sound
from jobs.landing.formats.rows import SCALARS, Bounds, Rows
from schemas.vocabulary import REJECTS
from tests.jobs.landing.formats.foreign_logs import as_json, packed
from tests.jobs.landing.formats.test_nccl_inspector import line as inspected
from tests.jobs.landing.formats.test_timeline import STAGE, op
from tests.jobs.landing.land import Landed, land
from tests.support.kineto_traces import data_parallel_traces, random_durations, without_collective
from tests.support.line_cases import line
from tests.support.night import Landing

TIMELINE = as_json([op(), STAGE])


def put_inspected(made: Landing, job_id: str, more: bytes = b"") -> None:
    made.put(job_id, "node-0-pid7.log", inspected(0, 1, 100.0) + inspected(0, 2, 90.0) + more)
    made.put(job_id, "node-1-pid7.log", inspected(1, 1, 500.0))


@pytest.fixture
def made(tmp_path: Path) -> Landing:
    return Landing(tmp_path / "landing")


def landed(made: Landing) -> Landed:
    return land(made.root, made.root.parent / "staging")


def test_the_format_is_chosen_by_content_whatever_packs_it(made: Landing) -> None:
    made.put("plain", "a.log", TIMELINE)
    made.put("gzip", "a.json", gzip.compress(TIMELINE))
    zstd = pa.BufferOutputStream()
    with pa.CompressedOutputStream(zstd, "zstd") as stream:
        stream.write(TIMELINE)
    made.put("zstd", "a.json.gz", zstd.getvalue().to_pybytes())
    made.put("torn", "a.json.zst", zstd.getvalue().to_pybytes()[:-8])
    for file in packed("megascan", "*.gz"):
        made.put("megascan", file.name, file.read_bytes())
    found = landed(made)
    for job_id in ("plain", "gzip", "zstd"):
        job = found.job(job_id)
        assert (len(found.steps(job_id)), job["source_format"], job["transfers"]) == (
            1,
            "ndtimeline",
            "measured",
        ), job_id
        assert (job["manifest_status"], job["world_size"]) == (None, 1)
        assert all(file.digest for file in found.accounts[job_id].files)
    assert (len(found.steps("torn")), found.reasons("torn")) == (0, {"a.json.zst": "unreadable_file"})
    assert (len(found.steps("megascan")), found.job("megascan")["transfers"]) == (80, "absent")
    assert found.job("megascan")["left_out"], "events that end iterations without a name are counted"


def test_the_manifest_wins_over_files(made: Landing) -> None:
    made.put("larger", "t.json", TIMELINE)
    made.put("larger", "job.json", json.dumps({"team": "nlp", "dp_size": 2}).encode())
    made.put("torn", "t.json", TIMELINE)
    made.put("torn", "job.json", b"{")
    made.put("outside", "t.json", as_json([op(), STAGE, op(tid=5, pid=1), {**STAGE, "pid": 1, "tid": 5}]))
    made.put("outside", "job.json", json.dumps({"dp_size": 1}).encode())
    found = landed(made)
    assert [found.job("larger")[name] for name in ("team", "dp_size", "world_size")] == ["nlp", 2, 2]
    assert (found.job("torn")["manifest_status"], len(found.steps("torn"))) == ("no_manifest", 1)
    assert (len(found.steps("outside")), found.reasons("outside")) == (1, {"t.json": "rank_out_of_range"})


def test_refused_and_unknown_files_are_rows_with_a_reason(made: Landing) -> None:
    made.manifest("timers")
    made.put("timers", "train.log", b"elapsed time per iteration (ms): 714.9")
    made.put("unknown", "train.log", b"loss 2.3")
    made.put("mixed", "a.log", b"elapsed time per iteration (ms): 714.9")
    made.put("mixed", "b.json", TIMELINE)
    made.put("mixed", "c.log", b"loss 2.3")
    found = landed(made)
    detail = found.job("timers")["manifest_detail"]
    assert detail.startswith("Megatron's timers: sums over an iteration")
    for job_id, reason in (("timers", "unusable_log"), ("unknown", "unknown_format")):
        assert found.reasons(job_id) == {"train.log": reason}
        assert found.job(job_id)["manifest_status"] == "unusable_log"
    assert (len(found.steps("mixed")), found.job("mixed")["manifest_status"]) == (1, None)
    assert found.reasons("mixed") == {"a.log": "unknown_format", "c.log": "unknown_format"}


def test_beside_rank_logs_and_while_it_is_uploaded_nothing_of_others_is_opened(made: Landing) -> None:
    made.manifest("own")
    made.log("own", "rank-00001.jsonl", [line(job_id="own")])
    made.put("own", "notes.json", TIMELINE)
    for name in (".a.json", "_a.json", "a.json.tmp", "a.tmp.json", "a.json.part", "a.txt"):
        made.put("under way", name, TIMELINE)
    found = landed(made)
    assert (found.job("own")["source_format"], found.job("own")["transfers"]) == ("rank-log/1", "measured")
    assert found.reasons("own") == {}
    assert found.accounts["under way"].files == []
    assert len(found.misplaced) == 7


@pytest.mark.parametrize("broken", ["a.json", "z.json"])
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (TIMELINE[:-40], "unreadable_file"),
        (as_json([op(ts=10**320), STAGE]), "not_finite"),
        (as_json([op(name="\ud800"), STAGE])[:-1], "unreadable_file"),
    ],
)
def test_no_file_of_a_run_costs_another(made: Landing, broken: str, content: bytes, reason: str) -> None:
    made.put("t", "m.json", TIMELINE)
    made.put("t", broken, content)
    found = landed(made)
    assert (len(found.steps("t")), found.job("t")["manifest_status"]) == (1, None)
    assert found.reasons("t") == {broken: reason}


def test_who_came_last_stands_beside_any_log_and_is_never_a_replay(made: Landing) -> None:
    for job_id in ("own", "timeline", "alone"):
        put_inspected(made, job_id, b"{\n")
    made.manifest("own")
    made.log("own", "rank-00001.jsonl", [line(job_id="own")])
    made.put("own", "other-pid7.log", b"loss 2.3")
    made.put("timeline", "t.json", TIMELINE)
    found = landed(made)
    left_out = {"collectives with an unrecorded rank": 1}
    for job_id, rows, others in (
        ("own", 1, {"other-pid7.log": "unknown_format"}),
        ("timeline", 1, {}),
        ("alone", 0, {}),
    ):
        assert found.last(job_id) == {("0x7f8c496ae9f661", 0): 1, ("0x7f8c496ae9f661", 1): 0}, job_id
        assert (len(found.steps(job_id)), found.job(job_id)["left_out"]) == (rows, left_out)
        assert found.reasons(job_id) == {"node-0-pid7.log": "not_json", **others}
        assert all(file.digest for file in found.accounts[job_id].files if file.file.name != "other-pid7.log")
    assert found.job("own")["manifest_status"] is found.job("timeline")["manifest_status"] is None
    assert found.job("alone")["manifest_status"] == "unusable_log"
    assert found.job("alone")["manifest_detail"].startswith(
        "NCCL Inspector: how long ranks were in collectives"
    )


def test_traces_say_who_came_last_even_where_no_replay_can_be_made(made: Landing) -> None:
    texts = data_parallel_traces(random_durations(3, is_sharded=False, steps=2))
    for rank, text in enumerate(texts):
        made.put("ddp", f"rank-{rank}.json", text)
        made.put("graphs", f"rank-{rank}.json", text.replace(b"autograd::engine", b"other::engine"))
    put_inspected(made, "ddp")
    found = landed(made)
    of_traces = {("default_pg", 0): 0, ("default_pg", 1): 0, ("default_pg", 2): 8}
    assert found.last("ddp") == {**of_traces, ("0x7f8c496ae9f661", 0): 1, ("0x7f8c496ae9f661", 1): 0}
    assert found.last("graphs") == of_traces
    assert [found.job(name)["manifest_status"] for name in ("ddp", "graphs")] == [None, "unusable_log"]
    assert (len(found.steps("ddp")), len(found.steps("graphs"))) == (6, 0)


def test_a_trace_with_an_unusual_value_costs_no_other(made: Landing) -> None:
    made.put("odd", "job.json", json.dumps({"dp_size": 3, "pp_size": 1}).encode())
    for rank, text in enumerate(data_parallel_traces(random_durations(3, is_sharded=False, steps=2))):
        odd = re.sub(rb'"Seq": \d+', b'"Seq": [1]', text)
        made.put("odd", f"rank-{rank}.json", odd if rank == 1 else text)
    found = landed(made)
    assert found.reasons("odd") == {"rank-1.json": "unreadable_file"}
    assert sorted({rank for rank, _ in found.steps("odd")}) == [0, 2]
    assert [(file.file.name, file.rows) for file in found.accounts["odd"].files if file.digest] == [
        ("job.json", 0),
        ("rank-0.json", 2),
        ("rank-2.json", 2),
    ]


def test_rejects_count_once_where_another_trace_is_dropped(made: Landing) -> None:
    texts = data_parallel_traces(random_durations(3, is_sharded=False, steps=2, ranks=4))
    for number in (1, 5):
        texts[1] = without_collective(texts[1], number)
    texts[3] = re.sub(rb'"Seq": \d+', b'"Seq": [1]', texts[3])
    for rank, text in enumerate(texts):
        made.put("odd", f"rank-{rank}.json", text)
    found = land(made.root, made.root.parent / "staging", Bounds(rejects=3))
    assert found.reasons("odd") == {"rank-1.json": "missing_field", "rank-3.json": "unreadable_file"}
    assert len([each for each in found.rejected("odd") if each[0] == "rank-1.json"]) == 2


def test_nothing_of_a_refused_file_says_who_came_last(made: Landing) -> None:
    lines = inspected(0, 1, 100.0) + inspected(0, 2, 90.0, source="proxy")
    made.put("many", "node-0-pid7.log", lines + b"{\n" * 9)
    made.put("cut", "node-0-pid7.log", gzip.compress(lines * 9000)[:-8])
    for job_id in ("many", "cut"):
        made.put(job_id, "node-1-pid7.log", inspected(1, 1, 500.0))
    found = land(made.root, made.root.parent / "staging", Bounds(rejects=2))
    for job_id, reason in (("many", "too_many_rejects"), ("cut", "unreadable_file")):
        assert found.reasons(job_id) == {"node-0-pid7.log": reason}
        assert found.last(job_id) == {}, job_id
        assert found.job(job_id)["left_out"] == {"collectives with an unrecorded rank": 1}, job_id


def test_collectives_of_a_single_rank_are_counted_where_no_other_is_there(made: Landing) -> None:
    for rank, text in enumerate(data_parallel_traces(random_durations(3, is_sharded=False, steps=2))):
        made.put("single", f"rank-{rank}.json", re.sub(rb'"Group size": \d+', b'"Group size": 1', text))
    left_out = landed(made).job("single")["left_out"]
    assert left_out["collectives of a single rank, or with impossible numbers"] == 24


def test_traces_of_two_jobs_in_one_run_are_refused(made: Landing) -> None:
    for ranks in (2, 3):
        texts = data_parallel_traces(random_durations(3, is_sharded=False, steps=2, ranks=ranks))
        for rank, text in enumerate(texts[:2]):
            made.put("two", f"of-{ranks}-{rank}.json", text)
    found = landed(made)
    words = r"traces of different jobs: of-2-0\.json has world_size 2; .*, of-3-0\.json has world_size 3; "
    assert re.search(words, found.job("two")["manifest_detail"])
    assert (len(found.steps("two")), set(found.reasons("two").values())) == (0, {"unusable_log"})
    assert len(found.accounts["two"].files) == 4, "no file has two accounts"


def test_an_empty_manifest_is_filled_from_the_log_and_says_so(made: Landing) -> None:
    made.put("empty", "t.json", TIMELINE)
    made.put("empty", "job.json", b"{}")
    found = landed(made)
    assert (found.job("empty")["manifest_status"], found.job("empty")["world_size"]) == (None, 1)
    reason = "fields that job.json lacks, taken from the log: dp_size, pp_size, tp_size, cp_size, vpp_size"
    assert found.job("empty")["left_out"] == {reason: 5}


def test_what_follows_a_document_is_a_reject_and_the_document_counts(made: Landing) -> None:
    made.put("t", "t.json", TIMELINE + b" \n" + TIMELINE)
    for file in packed("megascan", "*.gz")[:1]:
        made.put("m", file.name, gzip.compress(gzip.decompress(file.read_bytes()) + b"]"))
    found = landed(made)
    assert (len(found.steps("t")), len(found.steps("m"))) == (1, 20)
    assert found.reasons("t") == {"t.json": "not_json"}
    assert list(found.reasons("m").values()) == ["not_json"]
    texts = [each["text"] for each in found.tables[REJECTS]]
    assert sorted(texts) == sorted([TIMELINE.decode(), "]"])


def test_units_without_a_byte_of_logs_come_first(made: Landing) -> None:
    made.manifest("a")
    made.put("b", "m.json", TIMELINE)
    found = landed(made)
    assert (len(found.steps("a")), len(found.steps("b"))) == (0, 1)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("t0_us", -1, "negative_time"),
        ("step", 1 << 63, "rank_out_of_range"),
        ("gpu", 1 << 40, "rank_out_of_range"),
    ],
)
def test_numbers_that_no_column_holds_are_rejects(name: str, value: int, reason: str) -> None:
    scalars = dict.fromkeys(SCALARS) | {"step": 1, "rank": 0, "dp_rank": 0, "pp_rank": 0, "t0_us": 5}
    lists = {"op": [0], "start_us": [0.0], "duration_us": [1.0], "microbatch": [0], "model_chunk": [0]}
    rows = Rows.of([{**scalars, **lists}, {**scalars, name: value, **lists}], [1, 2])
    good, (reject,) = sound(rows, {}, 1)
    assert (good.lines, reject.line, reject.reason) == ([1], 2, reason)
