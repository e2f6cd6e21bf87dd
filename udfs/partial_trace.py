"""What can honestly be said of a unit whose computes were recorded and whose transfers were not.

Transfers that are made from the gaps between computes give T = T_actual, whatever the job is: such a replay
proves nothing. So a slowdown is not given, only what it is if transfers cost nothing, and if all gaps are
transfers; and which computes take longer than others of their kind, which no transfer can change.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from schemas.vocabulary import OP_TYPES
from udfs.errors import TraceError
from udfs.ideals import IDEALS
from udfs.kernel import op_type as ot
from udfs.kernel.errors import TraceDefectError
from udfs.kernel.graph import Layout
from udfs.kernel.program import DIRECTIONS, Floats, Ints
from udfs.kernel.rows import US, StageRows
from udfs.kernel.what_if import How, analyse
from udfs.rank_rows import ReplayedRows
from udfs.trace_defects import trace_error

SLOW: Final = 1.1
"""Computes that take this many times as long as usual are named."""

MOST_NAMED: Final = 20
MOST_EARLY: Final = 0.05
"""Up to this share of the computes may begin before what they follow has ended: clocks differ."""

CLOCK_NOISE_US: Final = 1e3
PEERS: Final = 3
"""Fewer dp ranks do not tell which of them is slow."""

_SEND, _RECV = 1, 2
"""Places in DIRECTIONS."""

Row = dict[str, object]


def partial_results(rows: ReplayedRows, layout: Layout, ideal: str, ops_together: int) -> tuple[str, Row]:
    """Detail of the status, and the columns of job_slowdown that hold for a partial trace.

    raises : TraceError where the computes contradict each other, or the order of the stages.
    """
    bounds = []
    for has_gaps in (False, True):
        how = How(IDEALS[ideal], ops_together, None, diagnosed=False)
        try:
            found = analyse(_Completed(rows, layout, has_gaps), layout, rows.worker_rank, how=how)
        except TraceDefectError as defect:
            raise trace_error(defect, rows) from None
        bounds.append(float(found.times.recorded.mean() / found.times.ideal.mean()))
    slow = slow_computes(rows.stages(), layout)
    told = "".join(f"; {_told(each)}" for each in slow[:1])
    low, high = sorted(bounds)
    return (
        f"computes without transfers in {len(rows.steps)} steps: slowdown {low:.3f} to {high:.3f}{told}",
        {"slowdown_low": low, "slowdown_high": high, "slow_computes": slow},
    )


def _told(slow: Row) -> str:
    who = "" if slow["dp_rank"] is None else f", dp rank {slow['dp_rank']}"
    own_ms, usual_ms = (1e3 * float(str(slow[name])) for name in ("duration_s", "usual_s"))
    return (
        f"{slow['op_type']} of stage {slow['pp_rank']}, chunk {slow['model_chunk']}{who} takes "
        f"{own_ms:.3g} ms, usual are {usual_ms:.3g} ms"
    )


class _Computes(NamedTuple):
    """Computes of all stages; arrays of shape (compute,), times from the step's zero. [us]

    row   : position of (step, dp_rank) among the rows of a stage.
    chunk : position in the model: model chunk x pp_size + stage.
    key   : of direction, chunk, microbatch and row; ascending.
    previous_us : end of the compute before on the same worker; -inf of the first.
    """

    row: Ints
    stage: Ints
    direction: Ints
    chunk: Ints
    start_us: Floats
    end_us: Floats
    previous_us: Floats
    key: Ints
    stride: int

    def end_of_source_us(self, chunks: int) -> Floats:
        """End of the compute whose output each computes on; -inf where that is the model's input."""
        step = np.where(self.direction == 0, -1, 1)
        return self._of_neighbour(self.end_us, step, chunks, -np.inf)

    def start_of_target_us(self, chunks: int) -> Floats:
        """Start of the compute that works on each one's output; -inf where nothing does."""
        step = np.where(self.direction == 0, 1, -1)
        return self._of_neighbour(self.start_us, step, chunks, -np.inf)

    def _of_neighbour(self, values: Floats, step: Ints, chunks: int, none: float) -> Floats:
        found = np.full(len(values), none)
        wanted = np.flatnonzero((self.chunk + step >= 0) & (self.chunk + step < chunks))
        keys = self.key[wanted] + step[wanted] * self.stride
        at = np.minimum(np.searchsorted(self.key, keys), len(self.key) - 1)
        if (self.key[at] != keys).any():
            lost = wanted[int(np.argmax(self.key[at] != keys))]
            raise TraceError(
                f"a compute of stage {self.stage[lost]} has no counterpart on the stage next to it: computes "
                "are missing, or the schedule is dynamic or V-shaped, which cannot be replayed"
            )
        found[wanted] = values[at]
        return found


class _Transfers(NamedTuple):
    """One for each compute, where it is there; kind is its place in DIRECTIONS."""

    kind: int
    is_there: npt.NDArray[np.bool_]
    start_us: Floats
    duration_us: Floats


@dataclass(frozen=True)
class _Completed:
    """Rows of a job with transfers put between its computes; a JobRows.

    has_gaps : a transfer fills the time that its recv's worker is idle before; otherwise it takes none.
    """

    rows: ReplayedRows
    layout: Layout
    has_gaps: bool

    @property
    def ops(self) -> int:
        """Number of ops, with two transfers for each."""
        return 3 * self.rows.ops

    @property
    def number_of_steps(self) -> int:
        """Number of steps."""
        return self.rows.number_of_steps

    @property
    def clock(self) -> Ints:
        """One for all: without transfers nothing tells of clocks."""
        return np.zeros_like(self.rows.clock)

    @property
    def time_s(self) -> Floats:
        """When each step began. [s]"""
        return self.rows.time_s

    def stages(self, first: int, end: int) -> list[StageRows]:
        """Rows of the steps [first, end) with their transfers."""
        recorded = self.rows.stages(first, end)
        computes = _computes(recorded, self.layout)
        chunks = self.layout.pp_size * self.layout.vpp_size
        source_us, target_us = computes.end_of_source_us(chunks), computes.start_of_target_us(chunks)
        _refuse_other_schedules(computes, source_us, target_us)
        begin_us = computes.start_us
        if self.has_gaps:
            free_us = np.where(np.isfinite(computes.previous_us), computes.previous_us, source_us)
            begin_us = np.where(np.isfinite(free_us), np.minimum(free_us, begin_us), begin_us)
        recv_us = np.maximum(computes.start_us, source_us) - begin_us
        send_us = np.maximum(target_us - computes.end_us, 0.0)
        has_send = np.isfinite(target_us) | (self.layout.vpp_size > 1)  # k-th sends go with k-th computes
        transfers = (
            _Transfers(_RECV, np.ones_like(has_send), begin_us, recv_us),
            _Transfers(_SEND, has_send, computes.end_us, send_us),
        )
        return [_with_transfers(each, computes, stage, transfers) for stage, each in enumerate(recorded)]


def _computes(recorded: Sequence[StageRows], layout: Layout) -> _Computes:
    each = [_of_stage(own.from_first_op(), stage, layout) for stage, own in enumerate(recorded)]
    row, stage, direction, chunk, microbatch = (np.concatenate([own[name] for own in each]) for name in _INTS)
    times = [np.concatenate([own[name] for own in each]) for name in _TIMES]
    names, which = np.unique(microbatch, return_inverse=True)
    rows = len(recorded[0].zero_us)
    chunks = layout.pp_size * layout.vpp_size
    key = ((direction * chunks + chunk) * len(names) + which) * rows + row
    order = np.argsort(key, kind="stable")
    start_us, end_us, previous_us = (values[order] for values in times)
    row, stage, direction, chunk, key = (values[order] for values in (row, stage, direction, chunk, key))
    return _Computes(row, stage, direction, chunk, start_us, end_us, previous_us, key, len(names) * rows)


_INTS: Final = ("row", "stage", "direction", "chunk", "microbatch")
_TIMES: Final = ("start_us", "end_us", "previous_us")


def _of_stage(own: StageRows, stage: int, layout: Layout) -> dict[str, npt.NDArray[Any]]:
    """Columns of _Computes, and microbatch, of one stage."""
    row_of_op = np.repeat(np.arange(len(own.zero_us)), np.diff(own.first_op))
    computes = np.flatnonzero(np.isin(own.op_type, ot.COMPUTE))
    starts_us = own.start_us[computes] + own.zero_us[row_of_op[computes]]
    order = np.lexsort((starts_us, row_of_op[computes]))
    computes, start_us = computes[order], starts_us[order]
    row = row_of_op[computes]
    end_us = start_us + own.duration_us[computes]
    previous_us = np.full(len(row), -np.inf)
    previous_us[1:] = np.where(row[1:] == row[:-1], end_us[:-1], -np.inf)
    return {
        "row": row,
        "stage": np.full(len(row), stage),
        "direction": own.op_type[computes].astype(np.int64),
        "chunk": own.chunk[computes].astype(np.int64) * layout.pp_size + stage,
        "microbatch": own.microbatch[computes],
        "start_us": start_us,
        "end_us": end_us,
        "previous_us": previous_us,
    }


def _refuse_other_schedules(computes: _Computes, source_us: Floats, target_us: Floats) -> None:
    """Raise TraceError where stages pass microbatches on in another order, or begin before they have them."""
    is_early = computes.start_us + CLOCK_NOISE_US < source_us
    if is_early.mean() > MOST_EARLY:
        raise TraceError(
            f"{is_early.mean():.0%} of the computes begin before the stage that they follow has ended: the "
            "schedule is V-shaped or dynamic, which cannot be replayed"
        )
    order = np.lexsort((computes.start_us, computes.direction, computes.row, computes.stage))
    order = order[np.isfinite(target_us[order])]
    group = np.stack([computes.direction, computes.row, computes.stage])[:, order]
    is_same = (group[:, 1:] == group[:, :-1]).all(axis=0)
    if (is_same & (np.diff(target_us[order]) < -CLOCK_NOISE_US)).any():
        raise TraceError(
            "stages compute microbatches in different orders: a dynamic schedule, which cannot be replayed"
        )


def _with_transfers(
    recorded: StageRows, computes: _Computes, stage: int, transfers: Sequence[_Transfers]
) -> StageRows:
    """Rows of a stage without the transfers between stages that they have, and with these."""
    own = recorded.from_first_op()
    row_of_op = np.repeat(np.arange(len(own.zero_us)), np.diff(own.first_op))
    kept = ~np.isin(own.op_type, ot.TRANSFERS)
    lists = (own.op_type, own.start_us, own.duration_us, own.microbatch, own.chunk)
    parts: list[tuple[npt.NDArray[Any], ...]] = [(row_of_op[kept], *(values[kept] for values in lists))]
    for each in transfers:
        chosen = (computes.stage == stage) & each.is_there
        row, directions = computes.row[chosen], computes.direction[chosen]
        codes = np.array([direction[each.kind] for direction in DIRECTIONS], dtype=np.int8)[directions]
        nothing = np.zeros(len(row), dtype=np.int32)
        start_us = each.start_us[chosen] - own.zero_us[row]
        parts.append((row, codes, start_us, each.duration_us[chosen], nothing, nothing))
    row, op_type, start_us, duration_us, microbatch, chunk = map(np.concatenate, zip(*parts, strict=True))
    order = np.argsort(row, kind="stable")
    first_op = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(own.zero_us)))])
    return StageRows(
        first_op,
        op_type[order],
        start_us[order],
        duration_us[order],
        microbatch[order],
        chunk[order],
        own.zero_us,
    )


def slow_computes(recorded: Sequence[StageRows], layout: Layout) -> list[Row]:
    """Computes of a stage, or of one dp rank of it, that take longer than usual; worst first.

    A stage is held against the lower median of all stages and chunks, a dp rank against that of its peers.
    Times are medians over steps and microbatches.
    """
    computes = _computes(recorded, layout)
    chunks = layout.pp_size * layout.vpp_size
    cell = (computes.direction * chunks + computes.chunk) * layout.dp_size + computes.row % layout.dp_size
    own_s = np.full(2 * chunks * layout.dp_size, np.nan)
    order = np.argsort(cell, kind="stable")
    cells, first = np.unique(cell[order], return_index=True)
    lengths_s = (computes.end_us - computes.start_us)[order] * US
    own_s[cells] = [np.median(some) for some in np.split(lengths_s, first[1:])]
    by_cell = own_s.reshape(2, chunks, layout.dp_size)
    by_stage = _lower_median(by_cell)
    found = [
        _slow(direction, chunk, None, float(by_stage[direction, chunk]), float(usual), layout)
        for direction, usual in enumerate(_lower_median(by_stage))
        for chunk in np.flatnonzero(by_stage[direction] >= SLOW * usual).tolist()
    ]
    if layout.dp_size >= PEERS:
        found += [
            _slow(
                way, chunk, dp_rank, float(by_cell[way, chunk, dp_rank]), float(by_stage[way, chunk]), layout
            )
            for way, chunk, dp_rank in np.argwhere(by_cell >= SLOW * by_stage[:, :, None]).tolist()
        ]
    found.sort(key=lambda each: float(str(each["usual_s"])) - float(str(each["duration_s"])))
    return found[:MOST_NAMED]


def _lower_median(values: Floats) -> Floats:
    """Over the last axis."""
    lower: Floats = np.sort(values, axis=-1)[..., (values.shape[-1] - 1) // 2]
    return lower


def _slow(
    direction: int, chunk: int, dp_rank: int | None, own_s: float, usual_s: float, layout: Layout
) -> Row:
    return {
        "op_type": OP_TYPES[ot.COMPUTE[direction]],
        "pp_rank": chunk % layout.pp_size,
        "model_chunk": chunk // layout.pp_size,
        "dp_rank": dp_rank,
        "duration_s": own_s,
        "usual_s": usual_s,
    }
