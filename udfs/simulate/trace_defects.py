"""Describe defects found by the kernel in the log's terms: step, rank, op type."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from schemas.vocabulary import OP_TYPES
from udfs.errors import TraceError
from udfs.kernel.arrays import Floats
from udfs.kernel.errors import TraceDefectError
from udfs.simulate.rank_rows import ReplayedRows

LONGEST_STEP_S: Final = 1e12
"""A step cannot take longer [s]: 30,000 years, far below where sums and squares would leave float64."""


@contextmanager
def defects_named(rows: ReplayedRows) -> Iterator[None]:
    """Convert TraceDefectError to TraceError with step numbers and global ranks.

    raises : TraceError.
    """
    try:
        yield
    except TraceDefectError as found:
        ops = ", ".join(
            f"{OP_TYPES[op.op_type]} {op.ordinal} of rank {rows.worker_rank[op.stage, op.dp_rank]} "
            f"(dp_rank {op.dp_rank}, pp_rank {op.stage})"
            for op in found.ops
        )
        raise TraceError(f"step {rows.steps[found.step_index]}: {found.defect}: {ops}") from None


def refuse_endless(actual_s: Floats, rows: ReplayedRows) -> None:
    """Refuse steps longer than LONGEST_STEP_S. actual_s : shape (step,). [s]

    raises : TraceError naming the longest step.
    """
    longest = int(actual_s.argmax())
    if actual_s[longest] > LONGEST_STEP_S:
        took = f"takes {actual_s[longest]:.3g} s, more than {LONGEST_STEP_S:.0e} s"
        raise TraceError(f"step {rows.steps[longest]}: {took}")
