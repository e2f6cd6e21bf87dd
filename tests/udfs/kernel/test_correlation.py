"""Moments of pairs that were read in parts, against those of all pairs at once."""

import numpy as np
import pytest

from udfs.kernel.correlation import Moments, worker_moments


def test_moments_of_two_parts_are_those_of_all_steps() -> None:
    """Worker 1 lacks a pair here and there, worker 2 all pairs of the second part, worker 3 has none."""
    rng = np.random.default_rng(2)
    forward_s, backward_s = rng.random((2, 4, 6, 4)) + np.arange(6)[:, None]
    backward_s[rng.random((4, 6)) < 0.3, 1] = np.nan
    backward_s[:, 2:, 2] = np.nan
    backward_s[..., 3] = np.nan
    whole = worker_moments(forward_s, backward_s)
    parts = [worker_moments(forward_s[:, steps], backward_s[:, steps]) for steps in (slice(2), slice(2, 6))]
    for joined in (parts[0].joined(parts[1]), parts[1].joined(parts[0])):
        for name in Moments._fields:
            assert getattr(joined, name) == pytest.approx(getattr(whole, name), rel=1e-12), name
