"""Order statistics equal NumPy's to the last bit."""

from typing import Final

import numpy as np
import pytest

from udfs.kernel import selection
from udfs.kernel.arrays import Floats

SIZES: Final = [1, 2, 3, 10, selection.VERY_FEW + 1, selection.MANY, selection.MANY + 1, 30_000, 300_001]
SHARES: Final = (0.0, 0.15, 0.25, 0.3, 0.85, 1.0)


def drawn(size: int, kind: str) -> Floats:
    """Draw values of one kind: unordered, sorted, with ties, or of very different sizes."""
    values = np.random.default_rng(size).standard_normal(size)
    return {"any": values, "sorted": np.sort(values), "ties": np.round(values), "far": np.exp(9.0 * values)}[
        kind
    ]


@pytest.mark.parametrize("kind", ["any", "sorted", "ties", "far"])
@pytest.mark.parametrize("size", SIZES)
def test_ranks_of_many_values(size: int, kind: str) -> None:
    values = drawn(size, kind)
    before, ordered = values.copy(), np.sort(values)
    for rank in {0, size // 100, size // 3, size - 1}:
        wanted = ordered[rank], ordered[min(rank + 1, size - 1)]
        assert selection.neighbours(values, rank) == wanted
    assert selection.median_of_all(values) == np.median(values)
    for share in SHARES:
        assert selection.quantile_of_all(values, share) == np.quantile(values, share)
    assert np.array_equal(values, before), "inputs are left as they were"


@pytest.mark.parametrize("size", [1, 2, 7, selection.SORTED + 1, selection.SORTED + 2, selection.MANY + 2])
def test_medians_of_rows(size: int) -> None:
    rows = np.random.default_rng(size).standard_normal((3, size))
    assert np.array_equal(selection.medians_of_rows(rows), np.median(rows, axis=1))
    low = np.sort(rows, axis=1)[:, (size - 1) // 2]
    assert np.array_equal(selection.medians_of_rows(rows, low=True), low)


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (1, 2)])
def test_along_short_axes(axes: tuple[int, ...]) -> None:
    values = np.random.default_rng(1).standard_normal((4, 7, 5))
    before = values.copy()
    ordered = selection.ascending(values, *axes)
    assert np.array_equal(selection.median(ordered), np.median(values, axis=axes))
    for share in SHARES:
        assert np.array_equal(selection.quantile(ordered, share), np.quantile(values, share, axis=axes))
    assert np.array_equal(values, before), "inputs are left as they were"


@pytest.mark.parametrize("size", range(1, selection.FEW + 3))
def test_medians_along_short_axes(size: int) -> None:
    values = np.random.default_rng(size).integers(0, 9, (6, size, 700)).astype(float)
    before = values.copy()
    assert np.array_equal(selection.medians_along(values, 1), np.median(values, axis=1))
    low = np.quantile(values, 0.5, axis=1, method="lower")
    assert np.array_equal(selection.medians_along(values, 1, low=True), low)
    assert np.array_equal(values, before), "inputs are left as they were"


@pytest.mark.parametrize("size", range(1, selection.FEW + 3))
def test_rows_in_order(size: int) -> None:
    values = np.random.default_rng(size).integers(0, 9, (size, selection.ENOUGH)).astype(float)
    values[0, 1::3] = np.inf
    before = values.copy()
    for some in (values, values[:, :5]):
        assert np.array_equal(selection.sorted_rows(some), np.sort(some, axis=0))
    assert np.array_equal(values, before), "inputs are left as they were"
