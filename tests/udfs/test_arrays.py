"""The code that writes lists checks them by the same rules as the SQL of the gates."""

from typing import Any

import numpy as np
import pytest

from schemas.tables import TABLES
from schemas.vocabulary import RANK_STEPS
from tests.support.examples import table_rows
from udfs.op_lists import arrays_valid

TABLE = TABLES[RANK_STEPS]


def test_good_rows_and_no_rows_pass() -> None:
    assert arrays_valid(TABLE, table_rows(RANK_STEPS, [{}, {name: [] for name in TABLE.alike}]))
    assert arrays_valid(TABLE, table_rows(RANK_STEPS, []))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("op", [6, 3, 127]),
        ("op", [6, 3, -1]),
        ("op", [6, 3]),
        ("op", None),
        ("start_us", [0.0, np.nan, 1.0]),
        ("start_us", [0.0, np.inf, 1.0]),
        ("duration_us", [0.0, -1.0, 1.0]),
        ("duration_us", [0.0, None, 1.0]),
        ("microbatch", [0, 0, 0, 0]),
        ("model_chunk", [0, None, 0]),
    ],
)
def test_a_list_that_is_not_as_declared_does_not_hold(name: str, values: list[Any] | None) -> None:
    assert not arrays_valid(TABLE, table_rows(RANK_STEPS, [{}, {name: values}]))
