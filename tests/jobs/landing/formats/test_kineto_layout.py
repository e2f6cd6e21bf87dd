"""Test how each rank's dp rank and stage are found in torch.profiler traces, and which are refused."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from jobs.landing.formats.foreign import RefusalError
from jobs.landing.formats.kineto_ops import Step, of_all_dp_ranks
from jobs.landing.formats.kineto_place import Place, place_of
from jobs.landing.formats.kineto_stream import DistributedInfo, Group
from jobs.landing.formats.kineto_trace import ALL_REDUCE, SEND_RECV, Collective, Kernels
from tests.jobs.landing.formats.foreign_logs import read
from tests.support.kineto_pipelines import piped, pipeline_traces
from tests.support.kineto_traces import data_parallel_traces, random_durations
from tests.support.random_jobs import USUAL


def without_groups(text: bytes) -> bytes:
    trace = json.loads(text)
    del trace["distributedInfo"]["pg_config"]
    return json.dumps(trace).encode()


def test_without_groups_the_layout_comes_from_the_manifest() -> None:
    job = piped(USUAL)
    texts = pipeline_traces(job)
    named = read(texts).rows
    from_manifest = read([without_groups(text) for text in texts], job.manifest).rows
    assert from_manifest.equals(named)


@pytest.mark.parametrize(
    ("ranks", "rank", "position"),
    [
        (list(range(64, 94)), 70, 6),
        (list(range(64, 94)), 100, 36),
        ("[64, 65, 66, ...]", 100, 36),
        ([64, 65, 67], 100, 100 // 8 % 64),
        (list(range(64, 94)), 300, 300 // 8 % 64),
    ],
)
def test_a_list_of_ranks_that_is_cut_goes_on_as_it_began(
    ranks: list[int] | str, rank: int, position: int
) -> None:
    groups = [Group("mesh_tp", 8), Group("DATA_PARALLEL_GROUP", 64, ranks)]
    place = place_of(DistributedInfo(rank, 512, groups), {})
    assert (place.sizes["dp"], place.coordinates["dp"]) == (64, position)


@pytest.mark.parametrize("size", [True, 0, -2, "2"])
@pytest.mark.parametrize("axis", ["dp", "tp"])
def test_a_size_of_job_json_that_is_none_is_not_taken(axis: str, size: object) -> None:
    place = place_of(DistributedInfo(1, 4, [Group("mesh_dp", 4)]), {f"{axis}_size": size})
    assert [repr(each) for each in place.manifest().values()] == ["4", "1", "1", "4", "1"]


def test_a_truth_value_is_no_group_size() -> None:
    text = data_parallel(in_groups_of(3))
    odd = text.replace(b'"Group size": 3', b'"Group size": true')
    assert odd != text
    assert read([odd]).rows.equals(read([text]).rows)
    assert read([odd]).run.left_out == read([text]).run.left_out


def without_info(text: bytes) -> bytes:
    trace = json.loads(text)
    del trace["distributedInfo"]
    return json.dumps(trace).encode()


@pytest.mark.parametrize("name", ["trace_rank{}.json", "rank{}.json.gz", "job-7.Rank_{}.pt.trace.json"])
def test_rank_and_size_come_from_name_and_manifest_where_a_trace_has_none(name: str) -> None:
    texts = data_parallel_traces(random_durations(3, is_sharded=False, steps=2))
    named = {name.format(rank): without_info(text) for rank, text in enumerate(texts)}
    for sizes in ({"world_size": 3, "dp_size": 3}, dict.fromkeys(("pp_size", "tp_size", "cp_size"), 1)):
        found = read(named, {"dp_size": 3, **sizes})
        assert found.rows.equals(read(texts).rows)
        assert (found.job["manifest_status"], found.job["world_size"]) == (None, 3)
        assert found.run.arrivals is not None
        assert len(found.run.arrivals) == len(read(texts).run.arrivals or ())


@pytest.mark.parametrize(
    ("name", "manifest", "reason"),
    [
        (
            "pp_rank1.json",
            {"dp_size": 3, "world_size": 3},
            "neither a trace nor its file's name states the rank",
        ),
        (
            "rank1_rank2.json",
            {"dp_size": 3, "world_size": 3},
            "neither a trace nor its file's name states the rank",
        ),
        (
            "frank1.json",
            {"dp_size": 3, "world_size": 3},
            "neither a trace nor its file's name states the rank",
        ),
        ("rank1.json", {}, "how many ranks the job has. Write world_size and dp_size.*job.json"),
        ("rank3.json", {"dp_size": 3, "world_size": 3}, "of rank 3, beyond the 3 ranks"),
    ],
)
def test_a_name_that_is_no_rank_of_the_job_is_not_taken_for_one(
    name: str, manifest: dict[str, Any], reason: str
) -> None:
    text = without_info(data_parallel_traces(random_durations(3, is_sharded=False, steps=1))[0])
    with pytest.raises(RefusalError, match=reason):
        read({name: text}, manifest)


def test_replicas_of_a_mesh_are_dp_ranks_unless_each_is_sharded_again() -> None:
    replicas, shards = (Group("mesh_dp_replicate", 4, [0, 1, 2, 3]), Group("mesh_dp_shard", 2, [3, 7]))
    tensor, alone = Group("mesh_tp", 2, [3, 7]), Group("mesh_dp_shard", 1, [3])
    assert place_of(DistributedInfo(3, 8, [replicas, tensor]), {}).row()["dp_rank"] == 3
    assert place_of(DistributedInfo(3, 8, [replicas, tensor, alone]), {}).row()["dp_rank"] == 3
    with pytest.raises(RefusalError, match=r"groups of 2 of 8 ranks .hybrid sharding"):
        place_of(DistributedInfo(3, 8, [replicas, shards]), {})


def test_batched_sends_need_no_group_beside_tensor_parallelism() -> None:
    sizes = {"dp": 2, "pp": 2, "tp": 2, "cp": 1}
    place = Place(0, 8, sizes, dict.fromkeys(sizes, 0))
    none = Kernels(*(np.zeros(1),) * 3, np.zeros(1, bool), np.zeros(1, np.int64))

    def on_all_dp_ranks(kind: str) -> list[bool]:
        found: list[bool] = of_all_dp_ranks(
            Step(none, none, [Collective(kind, None, None, None)], 0.0), place
        ).tolist()
        return found

    assert on_all_dp_ranks(SEND_RECV) == [True]
    with pytest.raises(RefusalError, match="do not name their groups"):
        on_all_dp_ranks(ALL_REDUCE)


def pipeline_with(action: str) -> bytes:
    text: bytes = pipeline_traces(piped(USUAL))[0]
    return text.replace(b'"PP:0F1"', json.dumps(f"PP:{action}").encode())


def data_parallel(change: Callable[[dict[str, Any]], object]) -> bytes:
    trace = json.loads(data_parallel_traces(random_durations(3, is_sharded=False, steps=1))[0])
    change(trace)
    return json.dumps(trace).encode()


def drop(name: str) -> Callable[[dict[str, Any]], None]:
    def change(trace: dict[str, Any]) -> None:
        trace["traceEvents"] = [each for each in trace["traceEvents"] if not each["name"].startswith(name)]

    return change


def in_groups_of(size: int) -> Callable[[dict[str, Any]], None]:
    def change(trace: dict[str, Any]) -> None:
        for event in trace["traceEvents"]:
            if "Group size" in event["args"]:
                event["args"] |= {"Group size": size, "Process Group Description": "mesh_dp_shard"}

    return change


def without_group_of_collectives(trace: dict[str, Any]) -> None:
    for event in trace["traceEvents"]:
        event["args"] = {"correlation": event["args"].get("correlation")}


@pytest.mark.parametrize(
    ("text", "manifest", "reason"),
    [
        (lambda: pipeline_with("0I1"), {}, "0I1: a zero-bubble schedule.*Schedule1F1B"),
        (lambda: pipeline_with("0W1"), {}, "0W1: a zero-bubble schedule"),
        (lambda: pipeline_with("(0F1;0B0)OVERLAP_F_B"), {}, "overlaps passes"),
        (lambda: pipeline_with("7F1"), {}, "7F1 ran on pp_rank 0 of 4: stages lie in a V"),
        (lambda: data_parallel(drop("ProfilerStep")), {}, "no ProfilerStep.*prof.step"),
        (lambda: data_parallel(drop("cudaLaunch")), {}, "no kernel with its launch.*ProfilerActivity"),
        (lambda: data_parallel(drop("autograd")), {}, "no backward pass.*CUDA graphs"),
        (lambda: data_parallel(lambda trace: trace.pop("distributedInfo")), {}, "not state how many ranks"),
        (lambda: without_groups(data_parallel(lambda trace: None)), {}, "the layout is unknown.*job.json"),
        (lambda: data_parallel(lambda trace: None), {"pp_size": 2}, "do not make up the 3 ranks"),
        (lambda: data_parallel(lambda trace: None), {"pp_size": 3}, "a pipeline without PP: annotations"),
        (lambda: pipeline_with("0F1"), {"pp_size": 8}, "job.json says pp_size 8.*trace 4"),
        (lambda: data_parallel(in_groups_of(2)), {}, "groups of 2 of 3 ranks .hybrid sharding"),
        (
            lambda: without_groups(data_parallel(without_group_of_collectives)),
            {"tp_size": 3},
            "do not name their groups",
        ),
    ],
)
def test_a_log_that_no_replay_can_be_made_of_is_refused_with_a_way_out(
    text: Callable[[], bytes], manifest: Mapping[str, Any], reason: str
) -> None:
    with pytest.raises(RefusalError, match=reason) as raised:
        read([text()], manifest)
    assert re.fullmatch(r"torch\.profiler \(Kineto\): .*\. [A-Z].*", str(raised.value)), "ends with a remedy"
