"""Five faults that were the first that users reported, as jobs.

8 microbatches, 20 steps, hosts of four workers that hold one replica or two. Each says what is true, and what
0.3.0 said.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from tests.evaluation.shapes.draw import Job
from tests.evaluation.shapes.faults import (
    ALWAYS,
    BOTH,
    FROM,
    HOST,
    WORKER,
    Fault,
    slow_computes,
)
from tests.evaluation.shapes.layout import Floats, Layout, hosts
from tests.evaluation.shapes.times import Change, changed, even_times

_STEPS: Final = 20
_TURN: Final = 10
_NOISE: Final = 0.005


def job_on(dp: int, pp: int, fault: Callable[[Layout], Fault], optimizer: float = 0.5, seed: int = 0) -> Job:
    """Return a job with one fault, whose optimizer lasts for `optimizer` forward-computes."""
    layout = Layout(
        dp=dp,
        pp=pp,
        vpp=1,
        microbatches=8,
        host=hosts(dp, pp, 4, is_along_stages=False),
        step=np.arange(100, 100 + _STEPS),
        is_early=True,
    )
    ratios = {"transfer": 0.02, "gather": 0.2, "scatter": 0.3, "embedding": 0.05, "layernorm": 0.02}
    even = even_times(layout, 0.01, 0.02, clip=0.05, optimizer=optimizer, gc=0.1, **ratios)
    scatter = np.exp(np.random.default_rng(seed).normal(0, _NOISE, even.compute.shape))
    times = changed(even, [Change(factor={"compute": scatter})])
    return Job(seed, "example", "gaussian", layout, times, (fault(layout),))


def slow_backwards() -> Job:
    """A worker whose backwards always take 1.3 times as long, which costs 11.9 %.

    The answer was: uneven stages 2.5 %, move layers.
    """
    return job_on(2, 2, lambda layout: _worker(layout, "backward", ALWAYS, 1.3), optimizer=2.0)


def slow_backwards_from_step_10() -> Job:
    """As slow_backwards, but from step 10 of 20 on, which costs 6.3 %; an early version named no cause."""
    return job_on(2, 2, lambda layout: _worker(layout, "backward", FROM, 1.3), optimizer=2.0)


def slow_host_from_step_10() -> Job:
    """A host 1.3 times as slow from step 10 of 20, which costs 12.4 %.

    The answer was: uneven data 9.3 %, without a flag.
    """
    return job_on(
        4,
        4,
        lambda layout: slow_computes(
            layout, layout.workers_of_host(1), HOST, (BOTH, FROM, 1.3), _strength(FROM), host=1
        ),
    )


def backwards_twice_as_slow() -> Job:
    """Backwards twice as slow on one of 16 workers, without a pipeline: costs 39 %, which was once missed."""
    return job_on(16, 1, lambda layout: _worker(layout, "backward", ALWAYS, 2.0))


def slow_forwards() -> Job:
    """Forwards of one worker always 1.5 times as slow: costs 6.4 %; an early version named pauses."""
    return job_on(4, 4, lambda layout: _worker(layout, "forward", ALWAYS, 1.5))


def _worker(layout: Layout, direction: str, onset: str, size: float) -> Fault:
    worker = frozenset({(0, 1)})
    return slow_computes(layout, worker, WORKER, (direction, onset, size), _strength(onset))


def _strength(onset: str) -> Floats:
    return (np.arange(_STEPS) >= (_TURN if onset == FROM else 0)).astype(float)


EXAMPLES: Final = {
    each.__name__: each
    for each in (
        slow_backwards,
        slow_backwards_from_step_10,
        slow_host_from_step_10,
        backwards_twice_as_slow,
        slow_forwards,
    )
}
