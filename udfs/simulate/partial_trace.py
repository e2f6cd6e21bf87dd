"""Results for a unit whose computes were recorded and whose transfers were not.

Transfers that are made from the gaps between computes give T = T_actual, whatever the job is: such a replay
proves nothing. So a slowdown is not given, only what it is if transfers cost nothing, and if all gaps are
transfers; and which computes take longer than others of their kind, which no transfer can change.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from udfs.errors import TraceError
from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Ints, Mask
from udfs.kernel.graph.graph import Layout
from udfs.kernel.recorded.rows import StageRows
from udfs.kernel.replay.ideal import IDEALS
from udfs.kernel.what_if import How, analyse
from udfs.simulate.rank_rows import ReplayedRows
from udfs.simulate.recorded_computes import Computes, Row, computes_of, slow_computes
from udfs.simulate.trace_defects import defects_named

MOST_EARLY: Final = 0.05
"""Up to this share of the computes may begin before what they follow has ended: clocks differ."""

CLOCK_NOISE_US: Final = 1e3

_SEND, _RECV = 1, 2
"""Places in DIRECTIONS."""


def partial_results(rows: ReplayedRows, layout: Layout, ideal: str, ops_together: int) -> tuple[str, Row]:
    """Detail of the status, and the columns of job_slowdown that hold for a partial trace.

    raises : TraceError where the computes contradict each other, or the order of the stages.
    """
    bounds = []
    for has_gaps in (False, True):
        how = How(IDEALS[ideal], ops_together, None, diagnosed=False)
        with defects_named(rows):
            found = analyse(_Completed.of(rows, layout, has_gaps=has_gaps), layout, how)
        bounds.append(float(found.times.recorded.mean() / found.times.ideal.mean()))
    slow = slow_computes(rows.stages(), layout)
    detail = "".join(f"; {_worker_text(each)}" for each in slow[:1])
    low, high = sorted(bounds)
    return (
        f"computes without transfers in {len(rows.steps)} steps: slowdown {low:.3f} to {high:.3f}{detail}",
        {"slowdown_low": low, "slowdown_high": high, "slow_computes": slow},
    )


def _worker_text(slow: Row) -> str:
    who = "" if slow["dp_rank"] is None else f", dp rank {slow['dp_rank']}"
    own_ms, usual_ms = (1e3 * float(str(slow[name])) for name in ("duration_s", "usual_s"))
    return (
        f"{slow['op_type']} of stage {slow['pp_rank']}, chunk {slow['model_chunk']}{who} takes "
        f"{own_ms:.3g} ms, usual are {usual_ms:.3g} ms"
    )


class _Transfers(NamedTuple):
    """One for each compute, where it is there; kind is its place in DIRECTIONS."""

    kind: int
    is_there: Mask
    start_us: Floats
    duration_us: Floats


@dataclass(frozen=True, kw_only=True)
class _Completed(ReplayedRows):
    """Rows of a job with transfers put between its computes: two for each op.

    has_gaps : a transfer fills the time that its recv's worker is idle before; otherwise it takes none.
    """

    layout: Layout
    has_gaps: bool

    @classmethod
    def of(cls, rows: ReplayedRows, layout: Layout, *, has_gaps: bool) -> "_Completed":
        """Complete the rows of a job."""
        recorded = {field.name: getattr(rows, field.name) for field in fields(rows)}
        return cls(**recorded | {"ops": 3 * rows.ops}, layout=layout, has_gaps=has_gaps)

    @property
    def clock(self) -> Ints:
        """One clock for all: without transfers, clocks cannot be compared."""
        return np.zeros(self.replayed_row.shape, dtype=np.int64)

    def stages(self, first: int = 0, end: int | None = None) -> list[StageRows]:
        """Rows of the steps [first, end) with their transfers."""
        recorded = super().stages(first, end)
        computes = computes_of(recorded, self.layout)
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


def _refuse_other_schedules(computes: Computes, source_us: Floats, target_us: Floats) -> None:
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
    recorded: StageRows, computes: Computes, stage: int, transfers: Sequence[_Transfers]
) -> StageRows:
    """Rows of a stage without the transfers between stages that they have, and with these."""
    own = recorded.from_first_op()
    row_of_op = np.repeat(np.arange(len(own.zero_us)), np.diff(own.first_op))
    kept = ~np.isin(own.op_type, ot.TRANSFERS)
    parts: list[tuple[npt.NDArray[Any], ...]] = [(row_of_op[kept], *(values[kept] for values in own[1:6]))]
    for each in transfers:
        chosen = (computes.stage == stage) & each.is_there
        row, directions = computes.row[chosen], computes.direction[chosen]
        codes = np.array([direction[each.kind] for direction in ot.DIRECTIONS], dtype=np.int8)[directions]
        nothing = np.zeros(len(row), dtype=np.int32)
        start_us = each.start_us[chosen] - own.zero_us[row]
        parts.append((row, codes, start_us, each.duration_us[chosen], nothing, nothing))
    row, *lists = map(np.concatenate, zip(*parts, strict=True))
    order = np.argsort(row, kind="stable")
    first_op = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(own.zero_us)))])
    return StageRows._make([first_op, *(values[order] for values in lists), own.zero_us])
