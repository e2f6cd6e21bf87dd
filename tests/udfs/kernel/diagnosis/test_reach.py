"""Slow workers are grouped into culprits; the workers are three stages of four dp ranks on two hosts."""

from typing import Final

import numpy as np
import pytest

from udfs.kernel import op_type as ot
from udfs.kernel.cause import ALL, ALWAYS, BOTH, FROM, HOST, RACK, REPLICA, STAGE, WORKER
from udfs.kernel.diagnosis.reach import Series, grouped

STEPS: Final = 10
POSITIONS: Final = np.arange(5, 15)
"""Indices, within the job, of the steps of the series; the first five steps of the job have no computes."""
HOSTS: Final = np.array([[0, 0, 1, 1]] * 3)
UNKNOWN: Final = np.full((3, 4), -1)


def slow(stage: int, dp_rank: int, share: float = 0.5, first: int = 0, direction: int = BOTH) -> Series:
    """Return a worker whose ops, 2 s in each step, take longer by the share `share` from step `first` on."""
    series = np.where(np.arange(STEPS) >= first, share, 0.0)
    return Series(stage, dp_rank, direction, series, POSITIONS, 0.01, 2.0)


HOST_0: Final = [(stage, dp_rank) for stage in range(3) for dp_rank in range(2)]


def test_one_worker_is_a_worker_with_its_steps() -> None:
    (found,) = grouped([slow(1, 2, first=4)], HOSTS)
    assert (found.stage, found.dp_rank, found.reach, found.host, found.workers) == (1, 2, WORKER, ALL, ())
    assert (found.effect, found.share_of_steps, found.course) == (0.5, 0.6, FROM)
    assert (found.first_step, found.last_step) == (9, 14)
    assert found.lost_s == pytest.approx(0.6 * 0.5 * 2.0)


def test_a_host_is_one_culprit_with_its_workers() -> None:
    (found,) = grouped([slow(*worker) for worker in HOST_0], HOSTS)
    assert (found.reach, found.host, found.stage, found.dp_rank, found.course) == (HOST, 0, ALL, ALL, ALWAYS)
    assert set(found.workers) == set(HOST_0)
    assert found.effect == pytest.approx(0.5)


@pytest.mark.parametrize(("number", "is_host"), [(3, False), (4, True), (5, True)])
def test_a_host_is_slow_if_most_of_its_workers_are(number: int, is_host: bool) -> None:
    """If most workers of a host are slow, here six on all stages, the host is one culprit."""
    chosen = [(0, 0), (1, 1), (2, 0), (0, 1), (1, 0)][:number]
    reaches = {each.reach for each in grouped([slow(*worker) for worker in chosen], HOSTS)}
    assert (reaches == {HOST}) is is_host


def test_hosts_of_a_rack_that_are_slow_together_are_one_culprit() -> None:
    """If two of three hosts of a rack are slow together, the rack is one culprit; one slow host is not."""
    hosts, racks = np.array([[0, 0, 1, 2]] * 3), np.array([[7, 7, 7, -1]] * 3)
    slow_rack = [slow(stage, dp_rank) for stage in range(3) for dp_rank in range(3)]
    (found,) = grouped(slow_rack, hosts, racks)
    assert (found.reach, found.host, found.stage, found.dp_rank) == (RACK, 7, ALL, ALL)
    assert len(found.workers) == 9
    (one,) = grouped([slow(*worker) for worker in HOST_0], hosts, racks)
    assert (one.reach, one.host) == (HOST, 0)


def test_a_stage_and_a_replica_are_named_where_hosts_are_not_known() -> None:
    (stage,) = grouped([slow(1, dp_rank) for dp_rank in range(4)], UNKNOWN)
    assert (stage.reach, stage.stage, stage.dp_rank) == (STAGE, 1, ALL)
    (replica,) = grouped([slow(stage, 3) for stage in range(3)], UNKNOWN)
    assert (replica.reach, replica.stage, replica.dp_rank) == (REPLICA, ALL, 3)
    assert set(replica.workers) == {(0, 3), (1, 3), (2, 3)}


def test_workers_of_a_host_that_are_slow_in_other_steps_are_no_slow_host() -> None:
    chosen = [slow(*worker, first=place + 4) for place, worker in enumerate(HOST_0)]
    for place, each in enumerate(chosen):
        each.share[:] = 0.0
        each.share[place] = 0.5
    assert [each.reach for each in grouped(chosen, HOSTS)] == [WORKER] * 6


def test_directions_are_grouped_apart() -> None:
    backwards = [slow(*worker, direction=ot.BACKWARD_COMPUTE) for worker in HOST_0]
    other = slow(2, 3, direction=ot.FORWARD_COMPUTE)
    found = {each.reach: each.direction for each in grouped([*backwards, other], HOSTS)}
    assert found == {HOST: ot.BACKWARD_COMPUTE, WORKER: ot.FORWARD_COMPUTE}


def test_a_worker_slower_than_its_host_is_named_beside_it_by_what_it_is_slower() -> None:
    """On a host that is 1.2 times as slow, a worker 1.8 times as slow is named as 1.5 times as slow."""
    chosen = [slow(*worker, share=0.2) for worker in HOST_0[:-1]] + [slow(*HOST_0[-1], share=0.8)]
    host, worker = sorted(grouped(chosen, HOSTS), key=lambda each: -len(each.workers))
    assert host.reach == HOST
    assert host.effect == pytest.approx(0.2)
    assert (worker.reach, worker.stage, worker.dp_rank) == (WORKER, *HOST_0[-1])
    assert worker.effect == pytest.approx(0.5)
