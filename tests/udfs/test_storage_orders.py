"""Results are equal to the last bit, however rows, and ops within a line, are ordered."""

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from schemas.vocabulary import OP_TYPES
from tests.support.random_jobs import named_job
from tests.udfs.equal_results import assert_same_results, in_chunks, shuffled_rows
from udfs.op_lists import LISTS
from udfs.what_if import simulate_job

Places = npt.NDArray[np.int64]
Order = Callable[[npt.NDArray[np.int8], npt.NDArray[np.float64], int], Places]
"""Function from a line's op codes, its starts and its row to the order in which to write its ops."""

NAMES: Final = np.argsort(np.argsort(OP_TYPES))
"""Rank of each op type in the order of names, by code."""


def by_start(op: npt.NDArray[np.int8], start_us: npt.NDArray[np.float64], row: int) -> Places:
    return np.argsort(start_us, kind="stable")


def by_type(op: npt.NDArray[np.int8], start_us: npt.NDArray[np.float64], row: int) -> Places:
    return np.lexsort((start_us, op))


def by_name(op: npt.NDArray[np.int8], start_us: npt.NDArray[np.float64], row: int) -> Places:
    return np.lexsort((start_us, NAMES[op]))


def by_type_backwards(op: npt.NDArray[np.int8], start_us: npt.NDArray[np.float64], row: int) -> Places:
    """Order the ops of all lines by type, and from last to first within a type."""
    return np.lexsort((-start_us, op))


def shuffled(op: npt.NDArray[np.int8], start_us: npt.NDArray[np.float64], row: int) -> Places:
    return np.random.default_rng(row).permutation(len(op))


def shuffled_alike(op: npt.NDArray[np.int8], start_us: npt.NDArray[np.float64], row: int) -> Places:
    return np.random.default_rng(0).permutation(len(op))


def mixed(op: npt.NDArray[np.int8], start_us: npt.NDArray[np.float64], row: int) -> Places:
    return (by_start, by_type, by_name, by_type_backwards, shuffled)[row % 5](op, start_us, row)


def one_other(op: npt.NDArray[np.int8], start_us: npt.NDArray[np.float64], row: int) -> Places:
    """Order the ops of each line by type, except those of line 5, which are ordered by start."""
    return (by_start if row == 5 else by_type)(op, start_us, row)


ORDERS: Final = (by_start, by_type, by_name, by_type_backwards, shuffled, shuffled_alike, mixed, one_other)


def listed(rank_steps: pa.Table, order: Order) -> pa.Table:
    """Return the rows with the ops of each line in another order."""
    rows = rank_steps.to_pylist()
    for position, row in enumerate(rows):
        op, start_us = np.array(row["op"], np.int8), np.array(row["start_us"])
        places = order(op, start_us, position).tolist()
        for name in LISTS:
            row[name] = [row[name][place] for place in places]
    return pa.Table.from_pylist(rows, schema=rank_steps.schema)


JOBS: Final = {
    "usual": named_job("usual"),
    "virtual_pipeline": named_job("virtual_pipeline"),
    "batched": named_job("virtual_pipeline_batched_overlapped"),
    "several_ranks_per_worker": named_job("tensor_parallelism_all_ranks_recorded"),
    "disagreeing": named_job("disagreeing"),
}


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: str(order.__name__))
@pytest.mark.parametrize("name", JOBS)
def test_order_of_a_lines_ops(name: str, order: Order) -> None:
    job = JOBS[name]
    wanted = simulate_job(listed(job.rank_steps, by_start), job.manifest)
    relisted = listed(job.rank_steps, order)
    assert order is by_start or not relisted.equals(job.rank_steps)
    assert_same_results(simulate_job(relisted, job.manifest), wanted, within=0.0)


@pytest.mark.parametrize("order", [by_start, by_type, mixed], ids=lambda order: str(order.__name__))
@pytest.mark.parametrize("name", JOBS)
def test_place_of_a_row(name: str, order: Order) -> None:
    job = JOBS[name]
    rows = listed(job.rank_steps, order)
    wanted = simulate_job(rows, job.manifest)
    for stored in (shuffled_rows(rows), in_chunks(rows, 3), in_chunks(shuffled_rows(rows, 1), 4)):
        assert_same_results(simulate_job(stored, job.manifest), wanted, within=0.0)
