"""Detect two stages whose records are swapped: their order contradicts their neighbours'."""

from collections.abc import Sequence
from itertools import combinations, islice
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.graph.graph import Layout, TraceDefectError
from udfs.kernel.recorded.first_pass import Recorded
from udfs.kernel.recorded.rows import StageRows
from udfs.kernel.recorded.trace import build_trace
from udfs.kernel.selection import evenly
from udfs.simulate.rank_rows import ReplayedRows

MOST_STAGES: Final = 32
REPLICAS: Final = 64
SEARCHED: Final = 4
"""Replicas that are examined, and those in which every pair of stages is exchanged."""

ODD: Final = 0.1
MOST_ODD: Final = 0.01
"""Share of odd transfers from which stages are suspected, and at most where they are in their places."""


class ExchangedStages(NamedTuple):
    """Two swapped stages; dp_ranks : of which replicas, None for all."""

    one: int
    other: int
    dp_ranks: tuple[int, ...] | None


def exchanged_stages(
    rows: ReplayedRows, layout: Layout, recorded: Recorded | None = None
) -> ExchangedStages | None:
    """Find two stages that fit only when swapped, from one step of some replicas.

    recorded : what was read of the rows; None where the ops contradict each other.
    returns  : None where no stages do, or where several pairs would.
    """
    if not 2 <= layout.pp_size <= MOST_STAGES:
        return None
    if not _is_suspect(recorded, rows, layout):
        return None
    at = len(rows.steps) // 2
    stages = rows.stages(at, at + 1)
    alone = layout._replace(dp_size=1, blocking=None)
    looked_at = evenly(layout.dp_size, REPLICAS)
    replicas = {dp_rank: [_row(each, dp_rank) for each in stages] for dp_rank in looked_at}
    odd = {dp: replica for dp, replica in replicas.items() if _odd(replica, alone) >= ODD}
    found = set[tuple[int, int]]()
    for replica in list(odd.values())[:SEARCHED]:
        fitting = (
            pair
            for pair in combinations(range(layout.pp_size), 2)
            if _odd(_exchanged(replica, *pair), alone) <= MOST_ODD
        )
        pairs = tuple(islice(fitting, 2))
        found.update(pairs)
        # Each look lays out a replica and builds its graph: the first replica that contradicts ends them.
        if not pairs or len(found) > 1:
            return None
    if not found:
        return None
    return ExchangedStages(*found.pop(), None if len(odd) == len(replicas) else tuple(odd))


def is_transposed(rows: ReplayedRows) -> bool:
    """Whether forwards arrive wherever dp_rank is not 0, as they do where the stage is not 0."""
    row, codes, _ = rows.middle_step
    shape = rows.worker_rank.shape
    arriving = row[codes == ot.FORWARD_RECV]
    arrives = np.bincount(arriving, minlength=rows.worker_rank.size).reshape(shape) > 0
    stage, dp_rank = np.indices(shape)
    return min(shape) > 1 and bool((arrives == (dp_rank > 0)).all() and (arrives != (stage > 0)).any())


def named_stages(found: ExchangedStages, rows: ReplayedRows) -> list[str]:
    """One sentence per replica about the ranks of two swapped stages."""
    one, other, of_replicas = found
    dp_ranks = range(rows.worker_rank.shape[1]) if of_replicas is None else of_replicas
    return [
        f"ranks {rows.worker_rank[one, dp]} and {rows.worker_rank[other, dp]} of stages {one} and {other}, "
        f"dp rank {dp}, are exchanged: their transfers fit only in each other's place"
        for dp in dp_ranks
    ]


def _is_suspect(recorded: Recorded | None, rows: ReplayedRows, layout: Layout) -> bool:
    """Whether there are hints of swapped stages: contradictions, or a first stage that hardly sends.

    Some logs keep recvs of the first stage that moved nothing, about as many as sends.
    """
    if recorded is None or recorded.clamped_transfers + recorded.buffered_sends >= len(recorded.actual_s):
        return True
    if layout.vpp_size > 1:
        return False
    row, codes, _ = rows.middle_step
    sends, recvs = (
        np.bincount(row[(codes == code) & (row < layout.dp_size)], minlength=layout.dp_size)
        for code in ot.DIRECTIONS[0][1:]
    )
    return bool((recvs > 2 * sends).any())


def _exchanged(replica: Sequence[StageRows], one: int, other: int) -> list[StageRows]:
    places = list(replica)
    places[one], places[other] = places[other], places[one]
    return places


def _row(stage: StageRows, row: int) -> StageRows:
    """Extract one row of a stage."""
    first, end = stage.first_op[row : row + 2].tolist()
    lists = [values[first:end] for values in stage[1:6]]
    return StageRows._make([np.array([0, end - first]), *lists, stage.zero_us[row : row + 1]])


def _odd(replica: Sequence[StageRows], layout: Layout) -> float:
    """Share of transfers that end before they are sent, or lack a peer; 1 if ops contradict.

    With model chunks, transfers may go round from the last stage to the first.
    """
    try:
        (block,) = build_trace(replica, layout, 1).blocks
    except TraceDefectError:
        return 1.0
    graph, early, met = block.graph, 0, 0
    for members, _ in graph.meetings:
        if graph.op_types[members[0][0]] in ot.TRANSFERS:
            sends, recvs = (np.array(ops) for ops in members)
            ends_s = block.start_s[recvs] + block.duration_s[recvs]
            early += 2 * int(np.count_nonzero(ends_s < block.start_s[sends]))
            met += 2 * len(sends)
    moved = sum(int(np.isin(each.op_type, ot.TRANSFERS).sum()) for each in replica)
    moved -= sum(len(cell.program.no_ops) for cell in graph.cells)
    alone = moved - met if layout.vpp_size == 1 else 0
    return (early + alone) / (met + alone) if met + alone else 0.0
