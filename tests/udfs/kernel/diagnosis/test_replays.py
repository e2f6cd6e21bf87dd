"""Replaying many scenarios together equals replaying each alone, and a replay without any fix gives T."""

from typing import Final

import numpy as np
import pytest

from tests.support.random_jobs import LAYOUTS, named_job
from tests.support.replays import replay, step_time
from tests.udfs.kernel.diagnosis.kernel_jobs import found_in, job_of, mean_step_s
from udfs.kernel import cause
from udfs.kernel.arrays import Floats
from udfs.kernel.diagnosis import fixes
from udfs.kernel.diagnosis.block_times import BlockTimes, KeptDelays
from udfs.kernel.diagnosis.fixes import without_transfers
from udfs.kernel.replay.replay import last_ops
from udfs.kernel.replay.replay import replay as replay_rows

SCENARIOS: Final = 3
NAMES: Final = [*LAYOUTS, "disagreeing"]
NOTHING: Final[frozenset[int]] = frozenset()


def scenarios(block: BlockTimes, seed: int) -> tuple[Floats, list[Floats], Floats, dict[int, Floats]]:
    """Draw durations and delays for both forms of replay; every third op is equal in all scenarios."""
    rng = np.random.default_rng(seed)
    size, (steps, lanes) = block.graph.size, block.duration_s.shape[1:]
    duration_s = rng.random((size, SCENARIOS, steps, lanes))
    duration_s[::3] = duration_s[::3, :1]
    rows = [values.reshape(SCENARIOS, -1) for values in duration_s]
    rows[::3] = [values[:1] for values in rows[::3]]
    delay_s = np.zeros(duration_s.shape)
    late = rng.choice(size, size // 4 + 1, replace=False)
    delay_s[late] = rng.random((len(late), SCENARIOS, steps, lanes))
    return duration_s, rows, delay_s, {op: delay_s[op].reshape(SCENARIOS, -1) for op in late.tolist()}


@pytest.mark.parametrize("name", NAMES)
def test_scenarios_together_are_scenarios_alone_to_the_last_bit(name: str) -> None:
    for seed, block in enumerate(job_of(named_job(name)).blocks()):
        duration_s, rows, delay_s, delays = scenarios(block, seed)
        is_last = last_ops(block.graph, np.zeros(block.graph.size))
        together = replay_rows(block.graph, rows, duration_s.shape[1:], is_last, delays)
        for scenario in range(SCENARIOS):
            one = slice(scenario, scenario + 1)
            ends_s = replay(block.graph, duration_s[:, one], delay_s[:, one])
            assert np.array_equal(together[scenario], step_time(ends_s)[0])


@pytest.mark.parametrize("name", [name for name in NAMES if "batched" not in name])
def test_a_job_with_nothing_fixed_takes_its_simulated_time(name: str) -> None:
    """With no cause fixed and no transfers in one call, the diagnosis' replay takes the simulated time T."""
    job = job_of(named_job(name))
    nothing = np.empty(0, dtype=np.int64)
    blocks = [
        block._replace(delays=KeptDelays(nothing, np.empty((0, *block.duration_s.shape[1:]))))
        for block in job.blocks()
    ]
    simulated_s = job.analysed().times.recorded.mean()
    assert mean_step_s(found_in(blocks, job.layout), NOTHING) == pytest.approx(simulated_s, rel=1e-12)


@pytest.mark.parametrize("name", ["usual", "virtual_pipeline", "batched_transfers", "disagreeing"])
def test_a_delay_left_in_is_what_fixing_delays_removes(name: str) -> None:
    job = job_of(named_job(name))
    blocks = job.blocks()
    undelayed = [
        block._replace(delays=block.delays._replace(delay_s=np.zeros_like(block.delays.delay_s)))
        for block in blocks
    ]
    fixed_s = mean_step_s(found_in(blocks, job.layout), frozenset({cause.LAUNCH_DELAY}))
    assert fixed_s == mean_step_s(found_in(undelayed, job.layout), NOTHING)
    assert fixed_s < mean_step_s(found_in(blocks, job.layout), NOTHING)


@pytest.mark.parametrize("name", [name for name in NAMES if "data_loads" in name])
def test_a_delay_counts_once(name: str) -> None:
    for block in job_of(named_job(name)).blocks():
        assert len(np.unique(block.delays.ops)) == len(block.delays.ops)


@pytest.mark.parametrize("name", ["usual", "virtual_pipeline_batched_overlapped", "disagreeing"])
def test_stacks_of_few_fixes_are_stacks_of_all(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_of(named_job(name))
    whole = job.analysed().diagnosis
    monkeypatch.setattr(fixes, "STACKED_VALUES", 1)
    np.testing.assert_equal(job.analysed().diagnosis, whole)


@pytest.mark.parametrize("name", ["usual", "virtual_pipeline", "disagreeing"])
def test_without_transfers_those_alone_take_no_time(name: str) -> None:
    for block in job_of(named_job(name)).blocks():
        duration_s = block.duration_s[:, None].copy()
        for members, _ in block.graph.meetings:
            for ops in members:
                duration_s[list(ops)] = 0.0
        delay_s = np.zeros_like(duration_s)
        delay_s[block.delays.ops, 0] = block.delays.delay_s
        wanted = step_time(replay(block.graph, duration_s, delay_s))[0]
        assert np.array_equal(without_transfers(block), wanted)
