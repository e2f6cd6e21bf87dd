"""Results for a unit with recorded computes but no recorded transfers.

Transfers that are made from the gaps between computes give T = T_actual, whatever the job is: such a replay
proves nothing. So a slowdown is not given, only between which bounds it lies; which computes take longer than
others of their kind, which no transfer can change; and between which stages gaps are largest.
"""

from udfs.kernel.clocks.estimate import Limits
from udfs.kernel.graph.graph import Layout
from udfs.kernel.replay.ideal import IDEALS
from udfs.simulate.compute_clocks import clocks_text, on_one_clock
from udfs.simulate.partial_bounds import bounds
from udfs.simulate.rank_rows import ReplayedRows
from udfs.simulate.recorded_computes import Row, computes_of, slow_computes
from udfs.simulate.stage_gaps import gap_rows, gap_text, least_gaps_us
from udfs.simulate.trace_defects import defects_named


def partial_results(
    rows: ReplayedRows, layout: Layout, ideal: str, ops_together: int, limits: Limits
) -> tuple[str, Row]:
    """Status detail, and the columns of job_slowdown that a partial trace supports.

    raises : TraceError where the computes contradict each other, or the order of the stages.
    """
    with defects_named(rows):
        rows, clocks = on_one_clock(rows, layout, ops_together, limits)
        recorded = rows.stages()
        lanes = rows.number_of_steps * layout.dp_size
        least_us = least_gaps_us(computes_of(recorded, layout), layout, lanes)
        low, high = bounds(rows, layout, least_us, IDEALS[ideal], ops_together)
    slow, gaps = slow_computes(recorded, layout), gap_rows(least_us, layout)
    known = [f"computes without transfers in {len(rows.steps)} steps: slowdown {low:.3f} to {high:.3f}"]
    known += [_worker_text(each) for each in slow[:1]]
    known += [gap_text(each) for each in gaps[:1]]
    known += [] if clocks is None else [clocks_text(clocks)]
    figures: Row = {"slowdown_low": low, "slowdown_high": high, "slow_computes": slow, "stage_gaps": gaps}
    return "; ".join(known), figures


def _worker_text(slow: Row) -> str:
    who = "" if slow["dp_rank"] is None else f", dp rank {slow['dp_rank']}"
    own_ms, usual_ms = (1e3 * float(str(slow[name])) for name in ("duration_s", "usual_s"))
    return (
        f"{slow['op_type']} of stage {slow['pp_rank']}, chunk {slow['model_chunk']}{who} takes "
        f"{own_ms:.3g} ms, usual are {usual_ms:.3g} ms"
    )
