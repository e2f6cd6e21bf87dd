"""Rows of a job without recorded transfers, completed by transfers that are inserted between computes."""

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
from udfs.simulate.rank_rows import ReplayedRows
from udfs.simulate.recorded_computes import Computes, computes_of

MOST_EARLY: Final = 0.05
"""Up to this share of the computes may begin before their inputs exist, because clocks differ."""

CLOCK_NOISE_US: Final = 1e3

APART_US: Final = 0.2
"""Time between transfers that are waited for one by one; closer transfers would count as one call. [us]"""

_SEND, _RECV = 1, 2
"""Positions in DIRECTIONS."""


class _Transfers(NamedTuple):
    """Transfers of one kind that are inserted beside computes.

    kind : position of their direction in DIRECTIONS
    is_there : which computes have one
    """

    kind: int
    is_there: Mask
    start_us: Floats
    duration_us: Floats


@dataclass(frozen=True, kw_only=True)
class CompletedRows(ReplayedRows):
    """Rows of a job with a recv inserted before and a send after each of its computes.

    has_gaps : whether each compute is extended to begin as soon as its worker is free and its input exists,
               so that a replay takes as long as the recorded step.
    one_by_one : whether workers wait for the two transfers between computes one after the other, ordered so
               that no two workers wait for each other; otherwise both are one call. This matters only for
               transfers that block by the layout.
    """

    layout: Layout
    has_gaps: bool
    one_by_one: bool

    @classmethod
    def of(
        cls, rows: ReplayedRows, layout: Layout, *, has_gaps: bool = False, one_by_one: bool = False
    ) -> "CompletedRows":
        """Complete the rows of a job by inserting transfers."""
        recorded = {field.name: getattr(rows, field.name) for field in fields(rows)} | {"ops": 3 * rows.ops}
        return cls(**recorded, layout=layout, has_gaps=has_gaps, one_by_one=one_by_one)

    @property
    def clock(self) -> Ints:
        """Clock of each row: one for all rows, because compute_clocks has corrected them before."""
        return np.zeros(self.replayed_row.shape, dtype=np.int64)

    def stages(self, first: int = 0, end: int | None = None, apart: int = 1) -> list[StageRows]:
        """Return the rows of every `apart`-th step in [first, end), with the inserted transfers.

        raises : TraceError if the computes contradict each other, or the order of the stages.
        """
        recorded = super().stages(first, end, apart)
        computes = computes_of(recorded, self.layout)
        chunks = self.layout.pp_size * self.layout.vpp_size
        source_us, target_us = computes.end_of_source_us(chunks), computes.start_of_target_us(chunks)
        refuse_other_schedules(computes, source_us, target_us)
        # With a virtual pipeline, k-th transfers belong to k-th computes, so that none may be left out.
        has_recv, has_send = (
            np.isfinite(each) | (self.layout.vpp_size > 1) for each in (source_us, target_us)
        )
        if self.has_gaps:
            # Each compute begins as early as its input allows.
            free_us = np.maximum(computes.previous_us, source_us)
            idle_us = np.where(np.isfinite(free_us), np.maximum(computes.start_us - free_us, 0.0), 0.0)
            for stage, each in enumerate(recorded):
                own, here = each.from_first_op(), computes.stage == stage
                start_us, duration_us = own.start_us.copy(), own.duration_us.copy()
                start_us[computes.op[here]] -= idle_us[here]
                duration_us[computes.op[here]] += idle_us[here]
                recorded[stage] = own._replace(start_us=start_us, duration_us=duration_us)
            computes = computes._replace(start_us=computes.start_us - idle_us)
        # Of transfers that start together, a worker waits first for the one that ends first.
        apart_us = APART_US if self.one_by_one else 0.0
        recv_us = apart_us * np.where(_recv_first(computes, source_us, target_us), 1.0, 3.0)
        previous_us, start_us = computes.previous_us, computes.start_us
        before_us = np.where(np.isfinite(previous_us), np.minimum(previous_us, start_us), start_us)
        after_us = np.minimum(computes.end_us, computes.next_us)
        transfers = (
            _Transfers(_RECV, has_recv, before_us, recv_us),
            _Transfers(_SEND, has_send, after_us, np.full_like(after_us, apart_us * 2.0)),
        )
        return [with_transfers(each, computes, stage, transfers) for stage, each in enumerate(recorded)]


def _recv_first(computes: Computes, source_us: Floats, target_us: Floats) -> Mask:
    """Mark the computes whose recv comes before the send of the compute before them.

    This is so for a backward after a forward if the next stage made the backward's input before it used the
    forward's output. The next stage then sends first, and two workers that both send first would wait for
    each other.
    """
    order = np.lexsort((computes.start_us, computes.row, computes.stage))
    before, behind = order[:-1], order[1:]
    is_same = (computes.stage[before] == computes.stage[behind]) & (
        computes.row[before] == computes.row[behind]
    )
    found = np.zeros(len(order), dtype=bool)
    found[behind] = (
        is_same
        & (computes.direction[before] < computes.direction[behind])
        & (source_us[behind] <= target_us[before])
    )
    return found


def refuse_other_schedules(computes: Computes, source_us: Floats, target_us: Floats) -> None:
    """Raise TraceError if stages reorder microbatches, or computes begin before their input can exist."""
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


def with_transfers(
    recorded: StageRows, computes: Computes, stage: int, transfers: Sequence[_Transfers]
) -> StageRows:
    """Replace the transfers in the rows of one stage by the given ones."""
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
