"""In the simulation, the first faults that users reported cost what the users measured."""

import pytest

from tests.evaluation.shapes.examples import EXAMPLES
from tests.evaluation.shapes.truth import truth

LOST_FRACTION = {
    "slow_backwards": 0.119,
    "slow_backwards_from_step_10": 0.063,
    "slow_host_from_step_10": 0.124,
    "backwards_twice_as_slow": 0.39,
    "slow_forwards": 0.064,
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_lose_what_they_did(name: str) -> None:
    found = truth(EXAMPLES[name]())
    assert found.lost_fraction == pytest.approx(LOST_FRACTION[name], abs=0.004)
    assert found.undecidable == ("",)
