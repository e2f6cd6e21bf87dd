"""Recorded no-op transfers, drawn in two lanes: which of them moved data is a matter of each lane alone."""

import numpy as np
import numpy.typing as npt

from udfs.kernel import op_type as ot
from udfs.kernel.recorded.rows import no_op_transfers

COMPUTE_S = (1.0, 2.0)
"""Both lanes compute forward from 1 to 3 s; a transfer takes 0.2 s where nothing else is said."""


def flags(op_type: int, starts_s: list[list[float]], duration_s: float = 0.2) -> npt.NDArray[np.bool_]:
    """Flags of transfers of one type, beside one forward-compute; starts_s by (op, lane)."""
    counts = tuple({ot.FORWARD_COMPUTE: 1, op_type: len(starts_s)}.get(t, 0) for t in range(ot.COUNT))
    lanes = len(starts_s[0])
    compute_start_s, compute_s = COMPUTE_S
    start_s = np.array([[compute_start_s] * lanes, *starts_s])
    durations_s = np.array([[compute_s] * lanes, *([duration_s] * lanes for _ in starts_s)])
    return no_op_transfers(counts, start_s, durations_s)[1:]


def test_a_recv_is_a_no_op_where_it_starts_after_the_last_compute_has_started() -> None:
    """The last of three is late in both lanes, the second in one of them, the first in none."""
    found = flags(ot.FORWARD_RECV, [[0.1, 0.1], [0.2, 1.5], [2.0, 2.0]])
    assert found.tolist() == [[False, False], [False, True], [True, True]]


def test_the_search_goes_on_while_a_recv_is_late_in_any_lane() -> None:
    assert flags(ot.FORWARD_RECV, [[0.1, 1.5], [0.2, 2.0]]).tolist() == [[False, True], [False, True]]


def test_a_send_is_a_no_op_where_it_ends_before_the_first_compute_has_ended() -> None:
    """Compute ends at 3 s; a send of 0.2 s that begins at 2.7 s has ended, one of 2.9 s has not."""
    found = flags(ot.FORWARD_SEND, [[0.1, 0.1], [2.7, 2.9], [3.0, 2.95]])
    assert found.tolist() == [[True, True], [True, False], [False, False]]


def test_clocks_round_by_less_than_50_us() -> None:
    late = flags(ot.FORWARD_RECV, [[1.0 + 40e-6, 1.0 + 60e-6]])
    early = flags(ot.FORWARD_SEND, [[2.8 - 40e-6, 2.8 - 60e-6]])
    assert late.tolist() == early.tolist() == [[False, True]]
