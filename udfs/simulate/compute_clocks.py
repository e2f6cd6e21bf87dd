"""Estimate clocks of a job without recorded transfers, so that no compute begins before its input exists.

The least gap forward between two workers is the time of a transfer plus the offset of the receiver's clock;
the least gap backward is the time of a transfer minus this offset. So each pair of workers has a range of
offsets that make all its transfers possible. If 0 lies in this range, gaps that differ by direction are
attributed to the link, never to a clock.
"""

from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.arrays import Floats, Ints, Mask, alike
from udfs.kernel.clocks.calls import calls
from udfs.kernel.clocks.ends import LINK, Heard, Key, heard
from udfs.kernel.clocks.estimate import LEAST_FLOOR_S, Clocks, Limits, estimate
from udfs.kernel.clocks.ties import HeardSteps
from udfs.kernel.graph.graph import Layout
from udfs.kernel.recorded.ends import recorded_ends
from udfs.kernel.recorded.first_pass import spans
from udfs.kernel.recorded.rows import US
from udfs.kernel.recorded.trace import build_trace
from udfs.kernel.selection import median_of_all
from udfs.simulate.completed_rows import MOST_EARLY, with_transfers
from udfs.simulate.rank_rows import ReplayedRows
from udfs.simulate.recorded_computes import computes_of, least_gaps_us, sender_of

NEIGHBOURS: Final = LINK - 1
"""Key of ties between computes of two stages; other keys are op types and links."""

SLOWER: Final = 1.5
"""A way there and back that takes more than this multiple of the shortest one includes a slow link."""


class _Pairs(NamedTuple):
    """Pairs of workers (stage * dp_size + dp_rank) on stages that exchange data in both directions.

    up_s, down_s : float64, shape (pair, step); least gap from `one` to `other`, and from `other` to `one`.
                   [s]
    """

    one: Ints
    other: Ints
    up_s: Floats
    down_s: Floats

    @property
    def is_off(self) -> Mask:
        """Mask of the pairs whose clocks must differ, because else data would arrive before they are sent."""
        wanted_s = np.minimum(self.up_s, self.down_s) + LEAST_FLOOR_S
        is_impossible: Mask = (wanted_s < 0.0).mean(axis=1) > MOST_EARLY
        # If no offset makes both ways possible, the order of the stages is wrong, which is refused later.
        is_possible: Mask = np.median(self.up_s + self.down_s, axis=1) > -LEAST_FLOOR_S
        return is_impossible & is_possible

    def heard(self, steps: Ints, time_s: Floats) -> Heard:
        """Return differences of clocks in some steps: 0 if possible, else the middle of the possible range.

        If the way there and back takes far longer in a step than in others, one of its two links became slow,
        and it is unknown which. The difference is then the possible one nearest to a line through other
        steps.

        time_s : float64, shape (step,); start of each step of the job. [s]
        """
        both_s = np.maximum(self.up_s + self.down_s, 0.0)
        least_s = both_s.min(axis=1, keepdims=True)
        is_usual = both_s <= SLOWER * least_s + 2 * LEAST_FLOOR_S
        middle_s = (self.up_s - self.down_s) / 2
        room_s = (both_s - least_s) / 2
        onward_s = np.clip(_line(middle_s, time_s, is_usual), middle_s - room_s, middle_s + room_s)
        apart_s = np.where(self.is_off[:, None], np.where(is_usual, middle_s, onward_s), 0.0)
        return Heard(self.one, self.other, apart_s[:, steps], both_s[:, steps] / 2)


def _line(values: Floats, time_s: Floats, is_known: Mask) -> Floats:
    """Fit a least-squares line through the known values of each row; shape (row, step)."""
    known = is_known.sum(axis=1, keepdims=True)
    late_s = time_s - (is_known * time_s).sum(axis=1, keepdims=True) / known
    middle = (is_known * values).sum(axis=1, keepdims=True) / known
    square = (is_known * late_s**2).sum(axis=1, keepdims=True)
    slope = (is_known * late_s * (values - middle)).sum(axis=1, keepdims=True) / np.where(square, square, 1.0)
    line: Floats = middle + slope * late_s
    return line


def on_one_clock(
    rows: ReplayedRows, layout: Layout, ops_together: int, limits: Limits
) -> tuple[ReplayedRows, Clocks | None]:
    """Correct all rows to one clock; return the rows, and the clocks if rows were corrected.

    raises : TraceDefectError, TraceError if the computes contradict each other.
    """
    clock = rows.clock
    if not clock.any():
        return rows, None
    pairs = _pairs(rows, layout)
    if not pairs.is_off.any() and layout.dp_size == 1:
        return rows, None
    found, spans_s = _heard(rows, layout, ops_together, pairs)
    clocks = estimate(found, int(clock.max()) + 1, rows.time_s, median_of_all(spans_s), limits)
    if not (clocks.is_corrected or pairs.is_off.any()):
        return rows, None
    steps = np.arange(rows.number_of_steps)
    ahead_s = clocks.ahead_s[clock, steps[:, None]]
    return replace(rows, zero_us=rows.zero_us - ahead_s / US), clocks


def _pairs(rows: ReplayedRows, layout: Layout) -> _Pairs:
    steps, dp_size = rows.number_of_steps, layout.dp_size
    least_s = least_gaps_us(computes_of(rows.stages(), layout), layout, steps * dp_size) * US
    by_pair = np.full((layout.pp_size, layout.pp_size, 2, steps * dp_size), np.inf)
    for direction in range(2):
        for receiver in range(layout.pp_size):
            sender = sender_of(direction, receiver, layout)
            towards = by_pair[min(sender, receiver), max(sender, receiver), int(receiver < sender)]
            np.minimum(towards, least_s[direction, receiver], out=towards)
    is_joined = np.isfinite(by_pair).all(axis=(2, 3)) & ~np.eye(layout.pp_size, dtype=bool)
    one, other = np.nonzero(is_joined)
    # (stage pair, way, row) to (stage pair x dp rank, step) for each way.
    ways = by_pair[one, other].reshape(len(one), 2, steps, dp_size).transpose(1, 0, 3, 2)
    up_s, down_s = ways.reshape(2, -1, steps)
    dp_rank = np.tile(np.arange(dp_size), len(one))
    ones, others = (np.repeat(stage * dp_size, dp_size) + dp_rank for stage in (one, other))
    return _Pairs(ones, others, up_s, down_s)


def _heard(
    rows: ReplayedRows, layout: Layout, ops_together: int, pairs: _Pairs
) -> tuple[list[HeardSteps], Floats]:
    """Return clock differences by computes and by collectives, and step times by the workers' own clocks."""
    found: list[HeardSteps] = []
    spans_s: list[Floats] = []
    by_step = rows.clock.transpose(1, 0, 2).reshape(rows.number_of_steps, -1)
    for first, end in spans(rows.number_of_steps, rows.ops, ops_together):
        recorded = rows.stages(first, end)
        computes = computes_of(recorded, layout)
        without = [with_transfers(each, computes, stage, ()) for stage, each in enumerate(recorded)]
        for block in build_trace(without, layout, end - first).blocks:
            ends = recorded_ends(block)
            spans_s.append((ends.last_s - ends.first_s).max(axis=(0, 2)))
            at = first + block.steps
            for members in alike(by_step[at]):
                own = by_step[at[members[0]]]
                kinds: dict[Key, Heard] = heard(ends.of_steps(members), layout, own, calls(block))
                kinds[NEIGHBOURS, 0, 0] = pairs.heard(at[members], rows.time_s)
                found.append(HeardSteps(at[members], own, kinds))
    return found, np.concatenate(spans_s)
