"""What a healthy job takes: its usual times, its host's delay and its noise."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

USUAL_S: Final[Mapping[str, float]] = MappingProxyType(
    {
        "forward-send": 0.002,
        "forward-recv": 0.002,
        "backward-send": 0.002,
        "backward-recv": 0.002,
        "params-all-gather": 0.015,
        "grads-reduce-scatter": 0.025,
        "separate-grads-all-reduce": 0.005,
        "layernorm-grads-all-reduce": 0.00004,
        "embedding-grads-all-reduce": 0.01,
        "optimizer-clip-main-grad": 0.001,
        "optimizer": 0.004,
        "gc": 0.0,
    }
)
"""Typical times of everything but computes, in the range of the published traces [s]."""
NOOP_TRANSFER_S: Final = 10e-6


@dataclass(frozen=True)
class Workload:
    """A job in which nothing goes wrong. Times in seconds.

    forward_s      : work linear in tokens of a full microbatch's forward pass through a stage, all its chunks
    backward_ratio : backward over forward of the linear work; two matrix products for one
    attention_backward_ratio : the same of the work quadratic in length; five products for two, because
                     attention is recomputed (Dao, arXiv 2307.08691, section 3.1)
    launch_s       : mean delay of the host before any op, exponentially distributed
    noise          : standard deviation of the log of any time
    usual_s        : time of everything but computes, by op type
    """

    forward_s: float = 0.05
    backward_ratio: float = 2.0
    attention_backward_ratio: float = 2.5
    launch_s: float = 0.00002
    noise: float = 0.01
    usual_s: Mapping[str, float] = field(default_factory=lambda: USUAL_S)
