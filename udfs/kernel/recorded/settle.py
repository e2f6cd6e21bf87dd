"""Turn a block's recorded times into durations, while its starts and ends are in memory."""

from typing import NamedTuple

from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.diagnosis.block_times import BlockTimes, block_times
from udfs.kernel.graph.graph import Layout
from udfs.kernel.recorded.calls import Unknown, unknown_transfers
from udfs.kernel.recorded.durations import clamped_launch_delays, put_transfers
from udfs.kernel.recorded.ends import Ends
from udfs.kernel.recorded.nobody_late import waits
from udfs.kernel.recorded.trace import StepBlock
from udfs.kernel.swing import ComputingSums


class Settled(NamedTuple):
    """Figures stored for a block besides its durations.

    diagnosed : the same steps as the diagnosis replays them; None where it is not wanted.
    unknown   : transfers of calls whose own length is not recorded, as in CallTimes.
    counted   : clamped transfers, buffered sends, clamped launch delays.
    waits_s   : times in which all of a stage wait, as of `waits`. [s]
    """

    diagnosed: BlockTimes | None
    unknown: dict[int, Unknown]
    counted: tuple[int, int, int]
    waits_s: Floats


def settle(
    block: StepBlock,
    ends: Ends,
    layout: Layout,
    clock: Ints,
    times_s: Floats,
    computing: ComputingSums,
    *,
    diagnosed: bool,
) -> Settled:
    """Record step times and starts, count computing workers, and replace durations by transfer times.

    clock   : int, shape (stage, step, dp_rank); of the block's steps.
    times_s : float64, shape (2, step); recorded step times, and starts. [s]
    """
    graph, start_s, duration_s = block.graph, block.start_s, block.duration_s
    end_s, here_s = ends.end_s, ends.first_s.min(axis=(0, 2))
    actual_s, began_s = times_s
    began_s[block.steps] = here_s
    actual_s[block.steps] = ends.last_s.max(axis=(0, 2)) - here_s
    computing.add(block, end_s, here_s, actual_s[block.steps])
    clamped_delays = clamped_launch_delays(graph, start_s, end_s)
    clamped, buffered = put_transfers(graph, start_s, end_s, duration_s, clock)
    kept = block_times(block, end_s, here_s, layout) if diagnosed else None
    unknown = unknown_transfers(graph, end_s, duration_s)
    waits_s = waits(graph, start_s, end_s, layout.pp_size)
    return Settled(kept, unknown, (clamped, buffered, clamped_delays), waits_s)
