"""MegaScan: a real job without transfers, and the branch with them as its files are described."""

import gzip
from collections import Counter
from typing import Any

import pytest

from jobs.landing.formats.foreign import RefusalError
from schemas.vocabulary import OP_TYPES
from tests.jobs.landing.formats.foreign_logs import as_json, packed, read

COMPUTE_NS = {"forward": 2_000_000, "backward": 4_000_000}
TRANSFER_NS = 100_000


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
    assert (job["slowdown_low"], job["slowdown_high"]) == pytest.approx((1.381, 1.453), abs=1e-3)
    assert "forward-compute of stage 3, chunk 3 takes 17.2 ms" in job["status_detail"]


class Pipeline:
    """Files of the branch with transfers, from its description: 1F1B of two stages, no sample is public."""

    def __init__(self, microbatches: int = 4, steps: int = 12, slow: float = 1.0) -> None:
        self.microbatches, self.steps, self.slow = microbatches, steps, slow

    def files(self) -> dict[str, bytes]:
        return {
            f"benchmark-global-{stage}-data-0-pipeline-{stage}-tensor-0.json": as_json(
                [event for step in range(self.steps) for event in self.iteration(stage, step)]
            )
            for stage in range(2)
        }

    def iteration(self, stage: int, step: int) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = [
            {"name": "iteration", "ph": "B", "pad_before": 0, "iteration": 100 + step}
        ]
        ends = self.times()
        for name, microbatch in self.order(stage):
            begin, end = ends[stage, name, microbatch]
            events.append({"name": name, "ph": "B", "rel_ts": begin})
            args = {"micro_batch_index": microbatch, "dp_rk": 0, "pp_rk": stage, "tp_rk": 0}
            events.append({"name": name, "ph": "E", "rel_ts": end, "args": args})
        last = max(end for (of, _, _), (_, end) in ends.items() if of == stage)
        return [*events, {"name": "iteration", "ph": "E", "rel_ts": last}]

    def order(self, stage: int) -> list[tuple[str, int]]:
        m = self.microbatches
        if stage == 0:
            found = [("recv-warmup", 0), ("forward-warmup", 0), ("send-warmup", 0), ("recv-extra", 1)]
            for i in range(1, m):
                found += [("forward", i), ("exchange-next", i), ("backward", i - 1)]
                found.append(("exchange-prev" if i < m - 1 else "send-extra", i - 1))
            return [*found, ("recv-cooldown", m - 1), ("backward-cooldown", m - 1), ("send-cooldown", m - 1)]
        found = [("recv-extra", 0)]
        for i in range(m):
            found += [("forward", i), ("exchange-next", i), ("backward", i)]
            found.append(("exchange-prev" if i < m - 1 else "send-extra", i))
        return found

    def times(self) -> dict[tuple[int, str, int], tuple[int, int]]:
        """Ops in turn on each stage; the two ends of a transfer end together."""
        meets = {(0, "send-warmup", 0): (1, "recv-extra", 0)}
        for i in range(1, self.microbatches):
            meets[0, "exchange-next", i] = (1, "exchange-prev", i - 1)
        meets[0, "recv-cooldown", self.microbatches - 1] = (1, "send-extra", self.microbatches - 1)
        back = {other: own for own, other in meets.items()}
        found: dict[tuple[int, str, int], tuple[int, int]] = {}
        queues = {stage: self.order(stage) for stage in range(2)}
        clock = {0: 0, 1: 0}
        while any(queues.values()):
            for stage, other in ((0, 1), (1, 0)):
                while queues[stage]:
                    key = (stage, *queues[stage][0])
                    peer = meets.get(key) or back.get(key)
                    if peer is not None and (not queues[other] or (other, *queues[other][0]) != peer):
                        break
                    queues[stage].pop(0)
                    if peer is not None:
                        queues[other].pop(0)
                        end = max(clock.values()) + TRANSFER_NS
                        found[key], found[peer] = (clock[stage], end), (clock[other], end)
                        clock = {0: end, 1: end}
                    else:
                        length = round(COMPUTE_NS.get(key[1].split("-")[0], 0) * (self.slow if stage else 1))
                        found[key] = (clock[stage], clock[stage] + length)
                        clock[stage] += length
        return found


def test_the_branch_with_transfers_gives_the_full_graph() -> None:
    found = read(Pipeline().files())
    assert (found.run.transfers, found.job["manifest_status"]) == ("measured", None)
    assert sorted(set(found.rows["step"].to_pylist())) == list(range(100, 112))
    ops = Counter(
        OP_TYPES[code] for row in found.rows.to_pylist() for code in row["op"] if row["step"] == 105
    )
    assert set(ops.values()) == {4, 8}, (
        "each of four transfer types once per microbatch, computes on two stages"
    )
    job = found.outcome()
    assert (job["status"], job["steps"], job["discrepancy"]) == ("analysed", 10, pytest.approx(0, abs=5e-3))
    assert job["slowdown"] == pytest.approx(1.0, abs=5e-3)
    slower = read(Pipeline(slow=1.5).files())
    job = slower.outcome()
    assert job["slowdown"] > 1.1
    assert job["last_stage_share"] > 0.9, "the slow stage is the last"


@pytest.mark.parametrize(("lacking", "status"), [({100, 101}, "analysed"), ({111}, "partial_trace")])
def test_transfers_are_measured_where_all_steps_that_are_replayed_have_them(
    lacking: set[int], status: str
) -> None:
    whole = Pipeline()
    files = {
        f"benchmark-global-{stage}-data-0-pipeline-{stage}-tensor-0.json": as_json(
            [
                event
                for step in range(12)
                for event in whole.iteration(stage, step)
                if 100 + step not in lacking
                or event["name"].split("-")[0] in {"iteration", "forward", "backward"}
            ]
        )
        for stage in range(2)
    }
    found = read(files)
    job = found.outcome()
    assert job["status"] == status
    steps = found.run.left_out["steps without transfers, where others have them"]
    assert steps == (0 if status == "analysed" else 1)


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
    files[last] = files[last][:-100]
    found = read(files)
    assert [each.reason for each in found.rejects] == ["unreadable_file"]
    assert set(found.rows["rank"].to_pylist()) >= {0, 1, 2}
