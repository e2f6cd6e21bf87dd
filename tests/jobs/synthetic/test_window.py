"""When a mechanism is at work, also where it outlasts what is recorded."""

import pytest

from jobs.synthetic.mechanisms.stages import LossLayer
from jobs.synthetic.mechanisms.workers import WeakGpu
from jobs.synthetic.window import Window


def test_windows_count_recorded_steps() -> None:
    assert Window(2, 4).mask(6).tolist() == [False, False, True, True, False, False]
    assert Window(4).mask(6).tolist() == [False] * 4 + [True] * 2
    assert Window(2, 4).later(3) == Window(-1, 1)
    assert WeakGpu(0, 0, 2.0, window=Window(2, 14)).part(10, 20) == WeakGpu(0, 0, 2.0, window=Window(-8, 4))
    assert WeakGpu(0, 0, 2.0, window=Window(2, 10)).part(10, 20) is None
    assert LossLayer(0.1, 0.1).part(10, 20) == LossLayer(0.1, 0.1)
    with pytest.raises(ValueError, match="starts at step 5 cannot end at 4"):
        Window(5, 4)
