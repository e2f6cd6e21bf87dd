"""Compare tables of results, and store rows of rank_steps in other orders and Arrow chunks."""

import math
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from schemas.vocabulary import OP_TYPE_SLOWDOWN, RESULT_TABLES

SAME: Final = 1e-12
"""Largest relative difference, and for shares the largest absolute difference, because sums may be added in
another order."""


def assert_same_results(
    found: dict[str, pa.Table], wanted: dict[str, pa.Table], within: float = SAME
) -> None:
    """Assert that numbers differ by at most `within` (0: not at all), and that other values are equal."""
    assert found.keys() == wanted.keys() == set(RESULT_TABLES)
    for name in RESULT_TABLES:
        ours, theirs = found[name], wanted[name]
        if name == OP_TYPE_SLOWDOWN:
            # Rows come in the order of the first graph's op types, which is not defined if a job has several
            # graphs.
            ours, theirs = ours.sort_by("op_type"), theirs.sort_by("op_type")
        assert ours.schema == theirs.schema, name
        for field in ours.schema:
            column, other = ours[field.name], theirs[field.name]
            where = f"{name}.{field.name}: {column.to_pylist()} is not {other.to_pylist()}"
            if within and pat.is_floating(field.type):
                assert column.is_null().equals(other.is_null()), where
                values, others = (np.asarray(c.drop_null(), dtype=np.float64) for c in (column, other))
                assert np.allclose(values, others, rtol=within, atol=within), where
            elif within and pat.is_nested(field.type):
                assert _same(column.to_pylist(), other.to_pylist(), within), where
            else:
                assert column.equals(other), where


def _same(found: object, wanted: object, within: float) -> bool:
    """Return whether nested values are equal, with numbers compared within a tolerance."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        return _same([*found.items()], [*wanted.items()], within)
    if isinstance(found, list | tuple) and isinstance(wanted, list | tuple):
        pairs = zip(found, wanted, strict=False)
        return len(found) == len(wanted) and all(_same(ours, theirs, within) for ours, theirs in pairs)
    if isinstance(found, float) and isinstance(wanted, float):
        return math.isclose(found, wanted, rel_tol=within, abs_tol=within)
    return found == wanted


def shuffled_rows(rank_steps: pa.Table, seed: int = 0) -> pa.Table:
    return rank_steps.take(np.random.default_rng(seed).permutation(rank_steps.num_rows))


def in_chunks(rank_steps: pa.Table, rows: int) -> pa.Table:
    """Return the rows in Arrow chunks of `rows` rows, of which only the first has offset 0."""
    rank_steps = rank_steps.combine_chunks()
    parts = [rank_steps.slice(first, rows) for first in range(0, rank_steps.num_rows, rows)]
    chunked = pa.concat_tables(parts)
    assert chunked["op"].num_chunks == len(parts) > 1
    return chunked
