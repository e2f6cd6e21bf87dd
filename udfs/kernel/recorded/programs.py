"""What makes two rows share a program, as numbers that can be compared: one signature for each row."""

from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Int32s, Ints
from udfs.kernel.graph.graph import StageProgram


class Places(NamedTuple):
    """Where ops of some types stand among the ops of a row, which are by (type, start).

    forwards, computes, dp_stream, loads : consecutive ops.
    """

    forwards: slice
    computes: slice
    dp_stream: slice
    loads: slice

    @classmethod
    def of(cls, counts: tuple[int, ...]) -> "Places":
        """Places in rows with these counts of ops by type."""
        first = tuple(accumulate(counts, initial=0))
        return cls(
            slice(0, first[ot.FORWARD_COMPUTE + 1]),
            slice(0, first[ot.BACKWARD_COMPUTE + 1]),
            slice(first[ot.PARAMS_ALL_GATHER], first[ot.GRADS_REDUCE_SCATTER + 1]),
            slice(first[ot.DATA_LOAD], first[ot.DATA_LOAD + 1]),
        )

    @property
    def has_chunk(self) -> list[int]:
        """Ops that belong to a model chunk."""
        return [*range(self.computes.stop), *range(self.dp_stream.start, self.dp_stream.stop)]


class Parts(NamedTuple):
    """What a program consists of beside its counts; int or bool, shape (each, row), or (each, 1) where alike.

    chunks : of the ops that have one.
    no_ops : of every op, whether it is a transfer that never moved data.
    """

    compute_order: Ints
    dp_order: Ints
    chunks: Int32s
    loaded_for: Ints
    no_ops: npt.NDArray[np.bool_]

    def program(self, counts: tuple[int, ...], row: int) -> StageProgram:
        """Program of one row."""
        compute_order, dp_order, of_ops, loaded_for, no_ops = (
            part[:, min(row, part.shape[1] - 1)].tolist() for part in self
        )
        chunks = [-1] * sum(counts)
        for op, chunk in zip(Places.of(counts).has_chunk, of_ops, strict=True):
            chunks[op] = chunk
        return StageProgram(
            counts=counts,
            compute_order=tuple(compute_order),
            dp_order=tuple(dp_order),
            chunks=tuple(chunks),
            no_ops=tuple(op for op, is_no_op in enumerate(no_ops) if is_no_op),
            loaded_for=tuple(loaded_for),
        )

    def signatures(self, rows: int) -> Ints:
        """All parts below each other; shape (each, row)."""
        return np.concatenate([np.broadcast_to(part, (len(part), rows)) for part in self])


def common(columns: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The first column alone, where all are alike."""
    return columns[:, :1] if (columns == columns[:, :1]).all() else columns


def loaded_for(loaded: Int32s, computed: Int32s) -> Ints:
    """The first forward-compute of each load's microbatch, -1 without any; shape (load, row), or (load, 1).

    loaded, computed : microbatches of loads and of forward-computes, shape (op, row), or (op, 1).
    """
    found = np.full((len(loaded), max(loaded.shape[1], computed.shape[1])), -1, dtype=np.int64)
    for load, microbatch in enumerate(loaded):
        is_own = computed == microbatch
        if is_own.any():
            found[load] = np.where(is_own.any(axis=0), is_own.argmax(axis=0), -1)
    return common(found)
