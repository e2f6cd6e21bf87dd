"""Detect times that are not in microseconds, and stages whose records are swapped.

Both are checked before a replay, because a replay of durations in seconds would look like any other. Swapped
stages are found because their transfers contradict those of their neighbours.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations, islice
from typing import Final

import numpy as np
import pyarrow as pa

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.graph.graph import Layout, TraceDefectError
from udfs.kernel.recorded.first_pass import Recorded
from udfs.kernel.recorded.rows import StageRows
from udfs.kernel.recorded.trace import build_trace
from udfs.kernel.selection import evenly, median_of_all
from udfs.op_lists import RowLists, lists_of_rows
from udfs.simulate.odd_records import is_of_day, log_day
from udfs.simulate.rank_rows import ReplayedRows

SHORTEST_US: Final = 1e3
LONGEST_US: Final = 86_400e6
"""A step takes at least a millisecond and at most a day. [us]"""

SHORTEST_OP_US: Final = 1.0
"""The longest op of a step takes more than this; quotients of shorter times may overflow. [us]"""

SAMPLED: Final = 3
"""Most steps that are examined."""

LONGEST_IN_SECONDS: Final = 60.0
"""A step time above this number is more likely in milliseconds than in seconds."""

ENOUGH_OPS: Final = 8
"""Fewest ops of a line from which units are inferred; on shorter lines durations may exceed starts by
chance."""

OTHER_UNIT: Final = 10.0
"""If ops on every line take more than this multiple of the last start, durations have another unit than
starts."""

LEAST_BUSY: Final = 0.005
"""Least share of a step that its ops take, including waits for others."""

LONGEST_IN_GAPS: Final = 30.0
"""If a step lasts more than this multiple of the time between two starts, one of the two has another unit."""

IN_MILLISECONDS: Final = (950.0, 1_400.0)
"""Range of the time between two starts over the length of a step if ops are in milliseconds, zeros in us."""

GAPS: Final = 9
ENOUGH_GAPS: Final = 5
"""Most times between starts of consecutive steps that are examined, and fewest that show milliseconds,
because a checkpoint or an evaluation may lie between two steps."""

T0_IN_NS: Final = (631_152_000e9, 4_102_444_800e9)
T0_IN_MS: Final = (631_152_000e3, 4_102_444_800e3)
T0_IN_S: Final = (631_152_000.0, 4_102_444_800.0)
"""Unix times of the years 1990 and 2100. [ns], [ms], [s]"""

UNITS_US: Final = {"seconds": 1e6, "milliseconds": 1e3, "nanoseconds": 1e-3}
"""Microseconds in each unit."""


def implausible_times(rank_steps: pa.Table) -> str | None:
    """Describe a step time that is implausible, with its probable time unit; None if times are plausible.

    A step counts as long as its longest line; zeros of lines do not count, because they may have another
    unit.
    """
    number = rank_steps.column("step").to_numpy()  # nan where it is null
    rows, first = _by_step(number)
    of_step = [rows[first[at] : first[at + 1]] for at in evenly(len(first) - 1, SAMPLED)]
    lists = lists_of_rows(rank_steps, np.concatenate(of_step), ("start_us", "duration_us"))
    if lists is None or not len(lists.place):
        return None
    start_us, duration_us = lists.values
    begin_us = np.minimum.reduceat(start_us, lists.first)
    earliest_us, latest_us = (each * 1e6 for each in T0_IN_S)
    t0_us = rank_steps["t0_us"].drop_null().to_numpy() if "t0_us" in rank_steps.column_names else np.empty(0)
    middles = [median_of_all(each) for each in (begin_us, t0_us) if len(each)]
    if len(middles) == 2 and all(earliest_us <= each < latest_us for each in middles):
        return f"start_us begins at {middles[0]:.0f}: is it counted from 1970, and not from t0_us?"
    span_us = np.maximum.reduceat(start_us + duration_us, lists.first) - begin_us
    step = np.repeat(np.arange(len(of_step)), list(map(len, of_step)))[lists.place]
    longest_us = np.full(len(of_step), -np.inf)
    with np.errstate(invalid="ignore"):  # Times that are not numbers are found when ops are laid out.
        np.maximum.at(longest_us, step, span_us)
    longest_us = longest_us[longest_us != -np.inf]
    took_us = np.nan if np.isnan(longest_us).any() else median_of_all(longest_us)
    mixed = _mixed_units(lists, span_us) if took_us >= SHORTEST_US else None
    if mixed is not None:
        return mixed
    if not took_us or not np.isfinite(took_us) or SHORTEST_US <= took_us <= LONGEST_US:
        return _beside_zeros(rank_steps, number, span_us)
    if took_us > LONGEST_US:
        return f"steps of {took_us / LONGEST_US:.3g} days: are these nanoseconds?"
    meant = "seconds" if took_us <= LONGEST_IN_SECONDS else "milliseconds"
    return f"steps of {took_us:.3g} us: are these {meant}?"


def _by_step(number: Ints | Floats) -> tuple[Ints, Ints]:
    """Sort rows by step.

    number  : step number of each row; rows without one, nan, are left out.
    returns : positions of the rows in the order of their steps; and the place of each step's first row in
              this order, followed by the number of rows.
    """
    rows = np.argsort(number, kind="stable")[: np.count_nonzero(np.isfinite(number))]
    begins = np.flatnonzero(np.diff(number[rows])) + 1
    return rows, np.concatenate([[0], begins, [len(rows)]])


def _mixed_units(lists: RowLists, span_us: Floats) -> str | None:
    """Say that starts or durations have another time unit, or that durations are ends; None if neither holds.

    lists   : starts and durations of lines. span_us : of each line. [us]
    """
    (start_us, duration_us), first, of_line = lists.values, lists.first, lists.size >= ENOUGH_OPS
    longest_us = float(duration_us.max())
    with np.errstate(invalid="ignore"):
        are_ends = np.minimum.reduceat(duration_us - start_us, first)[of_line] >= 0.0
        longest_of_line, last_us = (
            np.maximum.reduceat(each, first)[of_line] for each in (duration_us, start_us)
        )
        total_us = np.add.reduceat(duration_us, first)[of_line]
        busy = total_us / np.maximum(span_us, SHORTEST_US)[of_line]
        # One long wait alone does not count: all other ops together must take too long, too.
        too_long_us = np.minimum(longest_of_line, total_us - longest_of_line)
    if len(last_us) and ((last_us > 0.0) & (too_long_us > OTHER_UNIT * last_us)).all():
        return (
            f"ops take up to {longest_us:.3g} us and begin within {float(last_us.max()):.3g} us: "
            "is duration_us in nanoseconds, or start_us in milliseconds?"
        )
    if len(are_ends) and are_ends.all():
        return "every op takes at least as long as its start_us: does duration_us hold ends?"
    if 0.0 < longest_us < SHORTEST_OP_US and span_us.max() <= LONGEST_US:
        return f"no op takes longer than {longest_us:.3g} us: is duration_us in seconds?"
    if len(busy) and busy.max() < LEAST_BUSY:
        return f"the ops of a step take {float(busy.max()):.2%} of its time: is duration_us in milliseconds?"
    return None


def _beside_zeros(rank_steps: pa.Table, number: Floats, span_us: Floats) -> str | None:
    """Suggest the time unit of t0_us values that are thousands of years ahead or do not fit the step times.

    span_us : of lines. [us]
    """
    if "t0_us" not in rank_steps.column_names:
        return None
    t0_us = rank_steps.column("t0_us").to_numpy()  # nan where it is null
    is_known = np.isfinite(number) & np.isfinite(t0_us)
    if not is_known.any():
        return None
    middle = median_of_all(t0_us[is_known])
    if T0_IN_NS[0] <= middle < T0_IN_NS[1]:
        return f"t0_us is {middle:.0f}, after the year 9999: are these nanoseconds?"
    number, t0_us = number[is_known], t0_us[is_known]
    rows, first = _by_step(number)
    follows = np.flatnonzero(np.diff(number[rows[first[:-1]]]) == 1)
    pairs = follows[list(evenly(len(follows), GAPS))].tolist() if len(follows) else []
    begins = [rows[first[at] : first[at + 1]] for pair in pairs for at in (pair, pair + 1)]
    begin_us = [median_of_all(t0_us[each]) for each in begins]
    gaps_us = np.diff(begin_us)[::2]
    gap_us, took_us = median_of_all(gaps_us) if begin_us else 0.0, float(np.median(span_us))
    least, most = IN_MILLISECONDS
    is_near = bool(pairs) and 0.0 <= gap_us < took_us / LONGEST_IN_GAPS  # 0 if several begin in one second
    is_close = is_near and gap_us > 0.0
    said = None
    if is_near and T0_IN_S[0] <= middle < T0_IN_S[1]:
        said = f"t0_us is {middle:.0f}, of early 1970: are these seconds?"
    elif T0_IN_MS[0] <= middle < T0_IN_MS[1] and (is_close or took_us <= LONGEST_IN_SECONDS * 1e3):
        said = f"t0_us is {middle:.0f}, of early 1970: are these milliseconds?"
    elif is_close and gap_us >= SHORTEST_US:
        said = f"steps of {took_us / 1e6:.3g} s begin {gap_us / 1e6:.3g} s apart: are these nanoseconds?"
    elif len(pairs) >= ENOUGH_GAPS and least * took_us <= gap_us <= most * took_us and took_us >= SHORTEST_US:
        apart = f"steps begin {gap_us / 1e6:.3g} s apart but last {took_us / 1e3:.3g} ms"
        said = f"{apart}: are these milliseconds?"
    return said


def implausible_zeros(rank_steps: pa.Table, facts: Mapping[str, object], margin_s: float) -> str | None:
    """Suggest a time unit that puts t0_us on the log date; None if microseconds put it there already."""
    day = log_day(facts, margin_s)
    t0_us = rank_steps.column("t0_us").drop_null().to_numpy() if day is not None else np.empty(0)
    if day is None or not len(t0_us):
        return None
    middle = float(np.median(t0_us))
    for unit, in_us in UNITS_US.items():
        if is_of_day(np.array([middle * in_us]), day).all():
            return f"t0_us is {middle:.0f}, of another day: are these {unit}?"
    return None


MOST_STAGES: Final = 32
REPLICAS: Final = 64
SEARCHED: Final = 4
"""Most replicas whose transfers are examined, and most odd replicas in which every pair of stages is
swapped."""

ODD: Final = 0.1
MOST_ODD: Final = 0.01
"""A replica is odd from the first share of odd transfers on; with stages swapped back, at most the second
share may be odd."""


def exchanged_stages(rows: ReplayedRows, layout: Layout, recorded: Recorded | None) -> list[str]:
    """Find two stages whose transfers fit only if the stages are swapped, in one step of some replicas.

    recorded : result of reading the rows; None if the ops contradict each other.
    returns  : one sentence per replica, which names the ranks; empty if not exactly one pair of stages fits.
    """
    if not 2 <= layout.pp_size <= MOST_STAGES or not _is_suspect(recorded, rows, layout):
        return []
    at = len(rows.steps) // 2
    stages = rows.stages(at, at + 1)
    alone = layout._replace(dp_size=1, blocking=None)
    looked_at = evenly(layout.dp_size, REPLICAS)
    replicas = {dp: [each.some([slice(dp, dp + 1)]) for each in stages] for dp in looked_at}
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
        # Every test of a pair builds a graph, so that the first replica without a single answer ends the
        # search.
        if not pairs or len(found) > 1:
            return []
    dp_ranks = range(layout.dp_size) if len(odd) == len(replicas) else odd
    return [
        f"ranks {rows.worker_rank[one, dp]} and {rows.worker_rank[other, dp]} of stages {one} and {other}, "
        f"dp rank {dp}, are exchanged: their transfers fit only in each other's place"
        for one, other in found
        for dp in dp_ranks
    ]


def is_transposed(rows: ReplayedRows) -> bool:
    """Return whether dp_rank and pp_rank look swapped: exactly the dp ranks above 0 receive forward data."""
    row, codes, _ = rows.middle_step
    shape = rows.worker_rank.shape
    arriving = row[codes == ot.FORWARD_RECV]
    arrives = np.bincount(arriving, minlength=rows.worker_rank.size).reshape(shape) > 0
    stage, dp_rank = np.indices(shape)
    return min(shape) > 1 and bool((arrives == (dp_rank > 0)).all() and (arrives != (stage > 0)).any())


def _is_suspect(recorded: Recorded | None, rows: ReplayedRows, layout: Layout) -> bool:
    """Return whether something hints at swapped stages: contradictions, or a first stage that hardly sends.

    A first stage may have about as many recvs as sends, because some logs keep recvs that moved nothing.
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


def _odd(replica: Sequence[StageRows], layout: Layout) -> float:
    """Return the share of transfers that end before their send or have no peer; 1 if ops are in conflict.

    With several model chunks only early ends count: transfers may go from the last stage to the first.
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
