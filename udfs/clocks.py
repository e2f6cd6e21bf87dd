"""Clocks of a unit that is laid out whole, as timelines and custom scenarios need them."""

from typing import Final

from udfs.kernel.clocks.estimate import Limits
from udfs.kernel.clocks.listen import Listener
from udfs.kernel.graph import Layout
from udfs.kernel.trace import Trace
from udfs.rank_rows import ReplayedRows

USUAL_LIMITS: Final = Limits(floor_s=1e-3, floor_fraction=1.5e-4)
"""Mean offsets of a clock below the lower of the two are left alone."""


def correct_clocks(trace: Trace, rows: ReplayedRows, layout: Layout, limits: Limits = USUAL_LIMITS) -> None:
    """Move the starts of all ops to one clock, in place, where the clocks are found to be apart.

    trace : all steps of the rows, as recorded.
    """
    if not rows.clock.any():
        return
    listener = Listener(rows.clock, rows.time_s, layout, limits)
    for block in trace.blocks:
        listener.hear(block)
    clocks = listener.clocks()
    if clocks.is_corrected:
        for block in trace.blocks:
            listener.correct(block, clocks)
