"""Student's quantiles agree with scipy's."""

import pytest
from scipy.special import stdtrit

from udfs.kernel.student import student_quantile


@pytest.mark.parametrize("freedom", [1.0, 2.0, 2.3, 5.0, 11.7, 60.0, 1e4, 1e7])
@pytest.mark.parametrize("probability", [0.6, 0.9, 0.975, 0.995, 0.9995])
def test_students_quantiles_are_those_of_scipy(freedom: float, probability: float) -> None:
    assert student_quantile(probability, freedom) == pytest.approx(stdtrit(freedom, probability), rel=1e-6)
