"""Each host, or each rank if hosts have no names, has one clock; clocks are numbered by their first rows."""

import pyarrow as pa
import pytest

from udfs.kernel.graph.graph import Layout
from udfs.simulate.rank_rows import replayed_rows

HOSTS = ["b", None, "a", None, "b", "rank 1"]
RANKS = [0, 1, 2, 3, 0, 1]


@pytest.mark.parametrize("type_", [pa.string(), pa.dictionary(pa.int32(), pa.string())])
def test_clocks_are_hosts_or_ranks_in_the_order_of_their_rows(type_: pa.DataType) -> None:
    rows = pa.table(
        {
            "step": [1, 2, 3, 4, 5, 6],
            "rank": RANKS,
            "dp_rank": [0] * 6,
            "pp_rank": [0] * 6,
            "host": pa.array(HOSTS).cast(type_),
            "op": [[0]] * 6,
        }
    )
    found = replayed_rows(rows, Layout(1, 1))
    assert found.clock_names == ["b", "rank 1", "a", "rank 3"]
    assert found.clock.ravel().tolist() == [0, 1, 2, 3, 0, 1]
    assert found.host_of_clock == ["b", None, "a", None]
    assert found.rank_of_clock.tolist() == [0, 1, 2, 3]
