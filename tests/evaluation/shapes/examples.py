"""The first five faults that users reported, as jobs.

Jobs have 8 microbatches, 20 steps, and hosts of four workers. Each docstring states the true cost of the
fault as a share of the step time, and the answer of version 0.3.0 or of an early version.
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
    """Return a job with one fault and little noise; its optimizer takes `optimizer` forward-computes."""
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
    """One worker's backwards always take 1.3 times as long, which costs 11.9 % of the step time.

    Version 0.3.0 blamed uneven stages for 2.5 %, and proposed to move layers.
    """
    return job_on(2, 2, lambda layout: _worker(layout, "backward", ALWAYS, 1.3), optimizer=2.0)


def slow_backwards_from_step_10() -> Job:
    """Backwards of one worker are slow from step 10 of 20 on, which costs 6.3 % of the step time.

    An early version named no cause.
    """
    return job_on(2, 2, lambda layout: _worker(layout, "backward", FROM, 1.3), optimizer=2.0)


def slow_host_from_step_10() -> Job:
    """A host takes 1.3 times as long from step 10 of 20 on, which costs 12.4 % of the step time.

    Version 0.3.0 blamed uneven data for 9.3 %, without a flag.
    """
    return job_on(
        4,
        4,
        lambda layout: slow_computes(
            layout, layout.workers_of_host(1), HOST, (BOTH, FROM, 1.3), _strength(FROM), host=1
        ),
    )


def backwards_twice_as_slow() -> Job:
    """Backwards of one of 16 workers take twice as long, without a pipeline, for 39 % of the step time.

    Version 0.3.0 found no loss.
    """
    return job_on(16, 1, lambda layout: _worker(layout, "backward", ALWAYS, 2.0))


def slow_forwards() -> Job:
    """Forwards of one worker always take 1.5 times as long, which costs 6.4 % of the step time.

    An early version named pauses.
    """
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
