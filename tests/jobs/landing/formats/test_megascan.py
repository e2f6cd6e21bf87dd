"""A real MegaScan log, which has no transfers, is read; so are logs with transfers, made as documented."""

import gzip
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import groupby, product
from typing import Any

import pytest

from jobs.landing.formats.foreign import RefusalError, sound
from jobs.landing.formats.rows import LIMITS, joined
from jobs.synthetic.job import GeneratedJob
from jobs.synthetic.shape import JobShape
from schemas.vocabulary import OP_TYPES
from tests.jobs.landing.formats.foreign_logs import as_json, outcome, packed, read
from tests.support.random_jobs import FAULTS, generate_job


def shared() -> dict[str, bytes]:
    return {
        file.name.removesuffix(".gz"): gzip.decompress(file.read_bytes())
        for file in packed("megascan", "benchmark-*.json.gz")
    }


def test_a_real_job_without_transfers_is_a_partial_trace_with_its_slow_stage() -> None:
    found = read(shared())
    assert (found.run.source_format, found.run.transfers) == ("megascan", "absent")
    assert (found.rows.num_rows, sum(map(len, found.rows["op"].to_pylist()))) == (4 * 20, 5120)
    assert [found.job[name] for name in ("manifest_status", "pp_size", "vpp_size", "warm_up_steps")] == [
        None,
        4,
        4,
        2,
    ]
    assert found.run.left_out == {"ms without a name between the last op of an iteration and its end": 5355}
    job = found.outcome()
    assert (job["status"], job["slowdown"], job["steps"]) == ("partial_trace", None, None)
    worst = next(each for each in job["slow_computes"] if each["op_type"] == "forward-compute")
    assert (worst["pp_rank"], worst["model_chunk"], worst["dp_rank"]) == (3, 3, None)
    assert worst["duration_s"] == pytest.approx(17.2e-3, rel=0.01)
    assert worst["usual_s"] == pytest.approx(3.5e-3, rel=0.07)
    assert (job["slowdown_low"], job["slowdown_high"]) == pytest.approx((1.375, 1.635), abs=1e-3)
    largest = job["stage_gaps"][0]
    assert (largest["direction"], largest["pp_rank"], largest["next_pp_rank"]) == ("forward", 3, 0)
    assert "forward-compute of stage 3, chunk 3 takes 17.2 ms" in job["status_detail"]


NAMES = {
    "forward-compute": "forward",
    "backward-compute": "backward",
    "forward-recv": "recv-forward",
    "forward-send": "send-forward",
    "backward-recv": "recv-backward",
    "backward-send": "send-backward",
    "forward-send backward-recv": "exchange-next",
    "backward-send forward-recv": "exchange-prev",
    "grads-reduce-scatter": "allreduce",
    "optimizer": "optimizer",
}
ONE_FORWARD = [("iteration", "B"), ("forward", "B"), ("forward", "E"), ("iteration", "E")]
SHAPE = JobShape(dp_size=2, pp_size=2, steps=12, batched=True, absent=frozenset(set(OP_TYPES) - NAMES.keys()))


def files_of(job: GeneratedJob, lacking: Collection[int] = ()) -> dict[str, bytes]:
    """Return a job's log in MegaScan's form with transfers, which is documented but has no public sample.

    lacking : steps without transfers
    """
    events: dict[str, list[dict[str, Any]]] = defaultdict(list)
    rows = job.rank_steps.to_pylist()
    zeros_us: dict[int, int] = {row["step"]: row["t0_us"] for row in rows}
    for row in rows:
        place = "global-{rank}-data-{dp_rank}-pipeline-{pp_rank}-tensor-{tp_rank}".format(**row)
        log = events[f"benchmark-{place}.json"]
        log.append({"name": "iteration", "ph": "B", "pad_before": 0, "iteration": row["step"]})
        for (start_us, duration_us), names, microbatch in in_calls(row):
            if row["step"] in lacking and names.endswith(("send", "recv")):
                continue
            times = [
                1000 * (row["t0_us"] - zeros_us[row["step"]] + at)
                for at in (start_us, start_us + duration_us)
            ]
            log.append({"name": NAMES[names], "ph": "B", "rel_ts": times[0]})
            args = {"micro_batch_index": microbatch}
            log.append({"name": NAMES[names], "ph": "E", "rel_ts": times[1], "args": args})
        log.append({"name": "iteration", "ph": "E", "rel_ts": log[-1]["rel_ts"]})
    return {name: as_json(each) for name, each in events.items()}


def in_calls(row: dict[str, Any]) -> Iterator[tuple[tuple[float, float], str, int]]:
    """Yield ((start, duration) [us], op types, microbatch) of each of MegaScan's calls in a row.

    A send and a recv with equal times are one call.
    """
    ops = sorted(zip(row["start_us"], row["duration_us"], row["op"], row["microbatch"], strict=True))
    for times, own in groupby(ops, key=lambda op: op[:2]):
        together = [(OP_TYPES[op], microbatch) for *_, op, microbatch in own]
        both = next((each for each in NAMES if set(each.split()) == {name for name, _ in together}), None)
        for name, microbatch in [(both, together[0][1])] if both else together:
            yield times, name, microbatch


def test_the_branch_with_transfers_gives_the_full_graph() -> None:
    job = generate_job(SHAPE, FAULTS[:1], 7)
    files = files_of(job)
    assert b"exchange-next" in files["benchmark-global-0-data-0-pipeline-0-tensor-0.json"]
    read_back = read(files)
    found, known = read_back.outcome(), outcome(job.rank_steps, {**job.manifest, "warm_up_steps": 2})
    assert (read_back.run.transfers, read_back.job["manifest_status"]) == ("measured", None)
    assert (found["status"], found["steps"], found["ops"]) == ("analysed", 10, known["ops"])
    for name in ("slowdown", "discrepancy", "last_stage_share", "slow_worker_share"):
        assert found[name] == pytest.approx(known[name], rel=1e-9), name
    assert found["slowdown"] > 1.1


@pytest.mark.parametrize(("lacking", "status"), [((0, 1), "analysed"), ((-1,), "partial_trace")])
def test_transfers_are_measured_where_all_steps_that_are_replayed_have_them(
    lacking: tuple[int, ...], status: str
) -> None:
    job = generate_job(SHAPE, [], 7)
    steps = sorted(set(job.rank_steps["step"].to_pylist()))
    found = read(files_of(job, {steps[place] for place in lacking}))
    assert found.outcome()["status"] == status
    without = found.run.left_out["steps without transfers, where others have them"]
    assert without == (0 if status == "analysed" else 1)


@pytest.mark.parametrize(
    ("name", "others"),
    {
        "forward": ["forward-warmup"],
        "backward": ["backward-cooldown"],
        "recv-forward": ["recv-warmup", "recv-extra"],
        "recv-backward": ["recv-cooldown"],
        "send-forward": ["send-warmup"],
        "send-backward": ["send-extra", "send-cooldown"],
    }.items(),
)
def test_an_op_at_the_ends_of_the_schedule_is_one_under_its_other_name(name: str, others: list[str]) -> None:
    files = files_of(generate_job(replace(SHAPE, batched=False, steps=3), [], 7))
    wanted = read(files).rows
    for other in others:
        renamed = {
            file: log.replace(f'"{name}"'.encode(), f'"{other}"'.encode()) for file, log in files.items()
        }
        assert renamed != files
        assert read(renamed).rows.equals(wanted), other


def test_names_without_the_rank_give_it_in_megatrons_order() -> None:
    """If a file name lacks the rank, its tensor, data and pipeline ranks give it in Megatron's order."""
    log = as_json([{"name": name, "ph": phase, "rel_ts": 1} for name, phase in ONE_FORWARD])
    places = list(product(range(3), range(2), range(2)))
    found = read({f"benchmark-data-{dp}-pipeline-{pp}-tensor-{tp}.json": log for pp, dp, tp in places})
    ranks = {(row["pp_rank"], row["dp_rank"], row["tp_rank"]): row["rank"] for row in found.rows.to_pylist()}
    assert ranks == {place: rank for rank, place in enumerate(places)}


def test_what_lies_outside_of_iterations_is_counted() -> None:
    begin, end = ({"name": "forward", "ph": phase, "rel_ts": 1} for phase in "BE")
    iteration = [
        {"name": "iteration", "ph": "B"},
        begin,
        end,
        begin,
        {"name": "iteration", "ph": "E", "rel_ts": 2},
    ]
    events = [begin, end, *iteration, begin, end, {"name": "iteration", "ph": "B"}, *iteration, iteration[0]]
    found = read({"benchmark-data-0-pipeline-0-tensor-0.json": as_json(events)})
    assert found.rows["op"].to_pylist() == [[0], [0]]
    assert found.run.left_out == {
        "events of ops outside of iterations": 4,
        "beginnings of ops that did not end": 2,
        "iterations that did not end": 2,
    }


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (
            {"trace.json": shared()["benchmark-data-0-pipeline-0-tensor-0.json"]},
            "does not give the layout. Keep",
        ),
        (
            {
                "benchmark-data-0-pipeline-0-tensor-0.json": as_json(
                    [{"name": "iteration", "ph": "B"}, {"name": "wgrad", "ph": "B", "rel_ts": 1}]
                )
            },
            "zero-bubble schedules.*Trace the same job with the 1F1B",
        ),
        (
            {
                "benchmark-data-0-pipeline-0-tensor-0.json": as_json(
                    [{"name": "iteration", "ph": "B"}, {"name": "iteration", "ph": "E", "rel_ts": 1}]
                )
            },
            "holds an op. Trace with granularity",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_with_words(files: dict[str, bytes], words: str) -> None:
    with pytest.raises(RefusalError, match=words):
        read(files)


def test_a_file_that_breaks_off_costs_no_other_file() -> None:
    files = shared()
    last = max(files)
    files[last] = files[last][:-100].replace(b'"forward"', b'"loss"', 1)
    found = read(files)
    assert [each.reason for each in found.rejects] == ["unreadable_file"]
    assert set(found.rows["rank"].to_pylist()) >= {0, 1, 2}
    del files[last]
    assert found.run.left_out == read(files).run.left_out


@pytest.mark.parametrize("time", ["1" + "0" * 400, "-1" + "0" * 400, "-Infinity", "true"])
def test_a_time_that_is_none_costs_its_iteration_alone(time: str) -> None:
    name, content = next(iter(shared().items()))
    found = read({name: content.replace(b'"rel_ts": 1149984', f'"rel_ts": {time}'.encode())})
    good, rejects = sound(joined([part.rows for part in found.parts]), dict.fromkeys(LIMITS), 1)
    assert ([each.reason for each in rejects], found.rejects, len(good.lines)) == (["not_finite"], [], 19)


def rank_file(*events: dict[str, Any], **iteration: object) -> dict[str, bytes]:
    begin, end = {"name": "iteration", "ph": "B", **iteration}, {"name": "iteration", "ph": "E", "rel_ts": 9}
    return {"benchmark-data-0-pipeline-0-tensor-0.json": as_json([begin, *events, end])}


def test_an_op_that_begins_twice_is_counted_once_more() -> None:
    begin, end = ({"name": "forward", "ph": phase, "rel_ts": 5} for phase in "BE")
    found = read(rank_file({**begin, "rel_ts": 1}, begin, end))
    assert found.rows["start_us"].to_pylist() == [[0.005]]
    assert found.run.left_out["beginnings of ops that did not end"] == 1


@pytest.mark.parametrize("wrong", ["1", 1.0, True, 2**40, [0]])
@pytest.mark.parametrize("name", ["microbatch", "model_chunk", "iteration"])
def test_a_number_of_another_kind_is_not_taken_for_a_missing_one(name: str, wrong: object) -> None:
    begin, end = ({"name": "forward", "ph": phase, "rel_ts": 5} for phase in "BE")
    good, bad = rank_file(begin, end), rank_file(begin, end | {name: wrong})
    if name == "iteration":
        bad = rank_file(begin, end, iteration=wrong)
    (log, first), (second,) = *good.items(), bad.values()
    found = read({log: b"[" + first[1:-1] + b"," + second[1:-1] + b"]"})
    rows, rejects = sound(joined([part.rows for part in found.parts]), dict.fromkeys(LIMITS), 1)
    counts = dict(found.run.left_out)
    if name == "iteration":
        assert counts == {"iterations whose number is not an integer": 1}
    assert (len(rows.lines), [each.reason for each in rejects]) == (1, ["not_finite"] * (not counts))


def test_copies_of_one_rank_do_not_fill_the_layout() -> None:
    log = as_json([{"name": name, "ph": phase, "rel_ts": 1} for name, phase in ONE_FORWARD])
    names = ("pipeline-1-tensor-0", "pipeline-1-tensor-0-copy")
    assert "cp_size" not in read({f"benchmark-data-0-{name}.json": log for name in names}).run.manifest
