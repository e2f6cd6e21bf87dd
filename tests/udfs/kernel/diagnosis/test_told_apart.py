"""If pauses are too frequent, they hide how heavy microbatches are, whatever the number of stages."""

from math import comb
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from udfs.kernel.diagnosis.factors import Factors
from udfs.kernel.diagnosis.works import MOST_HIDDEN, hide_pauses


def factors(stages: int, struck: int) -> Factors:
    """Return factors of 100 microbatches with uneven data, of which `struck` have a pause on each stage."""
    pause_s = np.zeros((stages, 1, 1, 100, 1, 1))
    pause_s[:, :, :, :struck] = 0.1
    data = SimpleNamespace(is_real=True)
    return cast("Factors", SimpleNamespace(data=data, pause_s=pause_s, noise=np.ones_like(pause_s)))


@pytest.mark.parametrize("stages", [2, 3, 6, 11])
@pytest.mark.parametrize("struck", [0, 1, 5, 20, 40, 100])
def test_pauses_hide_weights_where_chance_lets_most_stages_pause_at_once(stages: int, struck: int) -> None:
    share, others = struck / 100, stages - 1
    chance = sum(
        comb(others, n) * share**n * (1.0 - share) ** (others - n) for n in range(stages // 2, stages)
    )
    assert hide_pauses(factors(stages, struck)) == (chance > MOST_HIDDEN)


@pytest.mark.parametrize(("struck", "hides"), [(40, False), (60, True)])
def test_a_thousand_stages_are_no_error(struck: int, hides: bool) -> None:
    """A job of 1,200 stages raises no error, though the ways to choose half overflow a float."""
    assert hide_pauses(factors(1_200, struck)) == hides
