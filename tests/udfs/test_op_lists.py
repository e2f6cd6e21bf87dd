"""Lists of ops are read from selected rows, however Arrow stores the table."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from schemas.vocabulary import OP_CODES
from udfs.op_lists import lists_of_rows

FORWARD, SEND = (OP_CODES[name] for name in ("forward-compute", "forward-send"))
OPS = [[FORWARD], [FORWARD, SEND], [], [SEND, SEND, FORWARD], [FORWARD, FORWARD]]
TABLE = pa.table(
    {
        "op": pa.array(OPS, pa.list_(pa.int8())),
        "duration_us": pa.array([[10.0 * row + op for op in range(len(ops))] for row, ops in enumerate(OPS)]),
    }
)


@pytest.mark.parametrize("rows", [[0, 1, 2, 3, 4], [1, 2], [4, 0], [2], [1, 3]])
@pytest.mark.parametrize("edges", [[0, 5], [0, 2, 5], [0, 1, 2, 3, 4, 5]])
def test_lists_come_row_after_row(rows: list[int], edges: list[int]) -> None:
    parts = [TABLE.slice(first, end - first) for first, end in pairwise(edges)]
    found = lists_of_rows(pa.concat_tables(parts), np.array(rows), ("op", "duration_us"))
    assert found is not None
    # Chunks come in order; within a chunk, rows come in the requested order.
    of_part = [[row for row in rows if first <= row < end] for first, end in pairwise(edges)]
    wanted = [row for part in of_part for row in part if OPS[row]]
    assert [rows[place] for place in found.place.tolist()] == wanted
    if wanted:
        ends = [*found.first.tolist()[1:], len(found.values[0])]
        codes, times_us = (
            [each[first:end].tolist() for first, end in zip(found.first.tolist(), ends, strict=True)]
            for each in found.values
        )
        assert codes == [OPS[row] for row in wanted]
        assert times_us == [TABLE["duration_us"][row].as_py() for row in wanted]


def test_lists_that_do_not_fit_are_none() -> None:
    durations = pa.array([[1.0], [1.0], [], [1.0, 2.0, 3.0], [1.0, 2.0]])
    odd = TABLE.set_column(1, "duration_us", durations)
    assert lists_of_rows(odd, np.array([0, 3]), ("op", "duration_us")) is not None
    assert lists_of_rows(odd, np.array([0, 1]), ("op", "duration_us")) is None
