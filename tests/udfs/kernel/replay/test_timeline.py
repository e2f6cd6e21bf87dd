"""A timeline has the times of the replay, and the chain of ops that determines the end of a step."""

import numpy as np
import pytest

from jobs.synthetic.job import GeneratedJob
from jobs.synthetic.mechanisms.nuisances import ClockSkew
from tests.support.random_jobs import LAYOUTS, NOISY, USUAL, generate_job, named_job
from tests.support.replays import replay, replayed_durations
from udfs.kernel.recorded.trace import StepBlock, build_trace
from udfs.kernel.replay.timeline import Timeline, critical_path, replayed_timeline
from udfs.layout import read_layout
from udfs.simulate.rank_rows import replayed_rows

JOBS = {name: named_job(name) for name in (*LAYOUTS, "disagreeing")}


def blocks(job: GeneratedJob) -> list[StepBlock]:
    layout = read_layout(job.manifest)
    rows = replayed_rows(job.rank_steps, layout)
    return build_trace(rows.stages(), layout, len(rows.steps)).blocks


@pytest.mark.parametrize("name", JOBS)
def test_a_timeline_has_the_ends_of_the_replay_and_starts_from_which_they_follow(name: str) -> None:
    for block in blocks(JOBS[name]):
        duration_s = replayed_durations(block)
        ends = replay(block.graph, duration_s[:, None])[:, 0]
        for step in range(duration_s.shape[1]):
            found = replayed_timeline(block.graph, duration_s[:, step])
            assert np.array_equal(found.end_s, ends[:, step])
            assert np.array_equal(found.met_s + duration_s[:, step], found.end_s)
            assert (found.met_s >= found.start_s).all()
            for op, sources in enumerate(block.graph.waits_for):
                latest = found.end_s[list(sources)].max(axis=0) if sources else 0.0
                assert np.array_equal(found.start_s[op], np.broadcast_to(latest, found.start_s[op].shape))


@pytest.mark.parametrize("name", JOBS)
def test_the_critical_path_of_a_replay_has_neither_gaps_nor_overlaps(name: str) -> None:
    for block in blocks(JOBS[name]):
        duration_s = replayed_durations(block)
        timeline = replayed_timeline(block.graph, duration_s[:, 0])
        path = critical_path(block.graph, timeline)
        ends = [0.0, *(float(timeline.end_s[each.place]) for each in path)]
        assert [each.from_s for each in path] == ends[:-1]
        assert ends[-1] == timeline.end_s.max()


def test_clocks_that_differ_leave_a_path_that_ends() -> None:
    job = generate_job(USUAL, [ClockSkew(0.05)], seed=3, workload=NOISY)
    for block in blocks(job):
        for step in range(block.start_s.shape[1]):
            start_s = block.start_s[:, step]
            path = critical_path(block.graph, Timeline(start_s, start_s, start_s + block.duration_s[:, step]))
            places = [each.place for each in path]
            assert len(set(places)) == len(places)
