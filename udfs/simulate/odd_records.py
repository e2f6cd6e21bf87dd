"""Odd records: lines of other days, rank-steps with unusual ops, and ranks with times in another unit.

Each kind is counted. Records that would distort a result are left out, or the unit is not replayed.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.vocabulary import OP_TYPES
from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Ints, Mask
from udfs.kernel.graph.graph import Layout
from udfs.op_lists import flat_codes, list_lengths
from udfs.simulate.rank_rows import ReplayedRows

DAY_US: Final = 86_400_000_000
SECOND_US: Final = 1_000_000

MOST_NAMED: Final = 5
"""Most odd ranks, or missing workers, that a status names."""

MOST_ODD: Final = 0.2
"""Steps with an odd rank-step are left out only if they are at most this share of all steps; otherwise the
job itself varies."""

ENOUGH_STEPS: Final = 10
"""With fewer steps, it is unknown which ops a worker usually records."""

TIMED: Final = (ot.FORWARD_COMPUTE, ot.BACKWARD_COMPUTE, ot.OPTIMIZER)
"""Ops that take equally long on all ranks, within a small factor."""

UNITS: Final = (3.0, 6.0)
"""Powers of ten by which milliseconds, and seconds, differ from microseconds."""

YEAR_US: Final = 366 * DAY_US
NEAR: Final = 0.5
"""A rank has another unit if its ops take 10^x times as long as others', and |x| is this near to one of
UNITS."""

LEAST_RATIO: Final = 10 ** (min(UNITS) - NEAR)
"""If the longest op takes less than this multiple of the shortest, all ranks have one unit."""


def of_log_date(rank_steps: pa.Table, facts: Mapping[str, object], margin_s: float) -> tuple[pa.Table, int]:
    """Return the unit's rows of its log date, and the number of others; all rows if the date is unknown.

    Rows with a t0_us of 0 or null are kept, because producers without a calendar write 0. If no row is of the
    day but some are within a year of it, the log's calendar is wrong: these rows are returned, because
    differences between their times are right, and all rows are counted as others.

    facts    : the manifest, with log_date as a date if it is known.
    margin_s : time before and after this day, in UTC, that still counts as the day. [s]
    """
    day = log_day(facts, margin_s)
    if day is None or "t0_us" not in rank_steps.column_names:
        return rank_steps, 0
    first_us, last_us = day
    t0_us = rank_steps.column("t0_us")
    known_us = t0_us.drop_null().to_numpy()
    if not len(known_us) or first_us <= known_us.min() <= known_us.max() < last_us:
        return rank_steps, 0
    is_other_calendar = not is_of_day(known_us, day).any()
    if is_other_calendar:
        first_us, last_us = last_us - YEAR_US, first_us + YEAR_US
    is_inside = pc.and_(pc.greater_equal(t0_us, first_us), pc.less(t0_us, last_us))
    is_inside = pc.or_(is_inside, pc.equal(t0_us, 0))
    kept = rank_steps.filter(pc.fill_null(is_inside, fill_value=True))
    is_counted = is_other_calendar and bool(pc.any(pc.greater(kept.column("t0_us"), 0)).as_py())
    return kept, rank_steps.num_rows - (0 if is_counted else kept.num_rows)


def log_day(facts: Mapping[str, object], margin_s: float) -> tuple[int, int] | None:
    """Return the start, and the end exclusive, of the unit's log date in Unix time; None if unknown. [us]

    margin_s : time before and after this day, in UTC, that still counts as the day. [s]
    """
    log_date = facts.get("log_date")
    if not isinstance(log_date, date):
        return None
    day = datetime(log_date.year, log_date.month, log_date.day, tzinfo=UTC)
    first_us = round(day.timestamp() - margin_s) * SECOND_US
    return first_us, round(day.timestamp() + margin_s) * SECOND_US + DAY_US


def is_of_day(times_us: Ints | Floats, day: tuple[int, int]) -> Mask:
    """Return a mask of the Unix times [us] that lie within a day as returned by log_day."""
    return np.asarray((times_us >= day[0]) & (times_us < day[1]))


def without_odd_rank_steps(rows: ReplayedRows) -> ReplayedRows:
    """Drop steps in which a worker recorded other ops than the workers of its stage usually record.

    A step in which at least half of all workers differ has another schedule, and is kept.
    """
    lengths = list_lengths(rows.table)[rows.replayed_row]
    if (lengths == lengths[:, :1, :1]).all() or len(rows.steps) < ENOUGH_STEPS:
        return rows
    counts = _op_counts(rows)
    is_usual = np.empty(rows.replayed_row.shape, dtype=bool)
    for stage, of_stage in enumerate(counts):
        kinds, inverse, often = np.unique(
            of_stage.reshape(-1, of_stage.shape[-1]), axis=0, return_inverse=True, return_counts=True
        )
        is_usual[stage] = (inverse.reshape(-1) == often.argmax()).reshape(of_stage.shape[:2])
        if often.max() * 2 <= often.sum() or len(kinds) == 1:
            is_usual[stage] = True
    others = (~is_usual).sum(axis=(0, 2))
    is_odd = (others > 0) & (others * 2 < is_usual[:, 0].size)
    if not is_odd.any():
        return rows
    odd = int(others[is_odd].sum())
    if is_odd.mean() > MOST_ODD:
        return replace(rows, odd_rank_steps=odd)
    kept = ~is_odd
    left_out = int(list_lengths(rows.table)[rows.replayed_row[:, is_odd]].sum())
    return replace(
        rows,
        steps=rows.steps[kept],
        steps_dropped=rows.steps_dropped + int(is_odd.sum()),
        replayed_row=rows.replayed_row[:, kept],
        zero_us=rows.zero_us[:, kept],
        ops=rows.ops - left_out,
        odd_rank_steps=odd,
    )


def missing_workers(rows: ReplayedRows, layout: Layout) -> str:
    """Return, as text, the workers that are missing in most of the incomplete steps."""
    table = rows.table.filter(pa.array(list_lengths(rows.table) > 0))
    step, dp_rank, stage = (table.column(name).to_numpy() for name in ("step", "dp_rank", "pp_rank"))
    recorded = np.unique([stage.astype(np.int64) * layout.dp_size + dp_rank, step], axis=1)[0]
    workers, steps = np.unique(recorded, return_counts=True)
    lacking = layout.pp_size * layout.dp_size - len(workers)
    if lacking:
        least, first = 0, np.setdiff1d(np.arange(min(lacking, MOST_NAMED) + len(workers)), workers)
    else:
        least, first = int(steps.min()), workers[steps == steps.min()]
        lacking = len(first)
    cells = [divmod(worker, layout.dp_size) for worker in first[:MOST_NAMED].tolist()]
    named = "; ".join(f"dp_rank {dp_rank}, pp_rank {stage}" for stage, dp_rank in cells)
    more = f"; and {lacking - MOST_NAMED} more" if lacking > MOST_NAMED else ""
    return (
        f"none of {rows.steps_dropped} steps has all {layout.dp_size} x {layout.pp_size} workers; missing in "
        f"{rows.steps_dropped - least}: {named}{more}"
    )


def rows_without_transfers(rows: ReplayedRows) -> int:
    """Count the replayed rows that have computes, but lack the pipeline transfers of these computes."""
    counts = _op_counts(rows)
    computes, moves = (counts[..., list(kinds)].any(axis=-1) for kinds in (ot.COMPUTE, ot.TRANSFERS))
    return int(np.count_nonzero(computes & ~moves))


def _op_counts(rows: ReplayedRows) -> Ints:
    """Count the ops of each type that every step must have; shape (stage, step, dp_rank, op type)."""
    codes = flat_codes(rows.table)
    lengths = list_lengths(rows.table)
    row = np.repeat(np.arange(len(lengths)), lengths)
    counts = np.bincount(row * ot.COUNT + codes, minlength=len(lengths) * ot.COUNT).reshape(-1, ot.COUNT)
    counts[:, list(ot.OPTIONAL)] = 0
    chosen: Ints = counts[rows.replayed_row]
    return chosen


def in_other_units(rows: ReplayedRows) -> list[str]:
    """Return a sentence for each rank whose durations have another time unit than those of its peers.

    Only the middle step is examined, because a rank logs all steps in one unit.
    """
    workers = rows.worker_rank.size
    if workers < 2:
        return []
    row, codes, duration_us = rows.middle_step
    found: dict[int, str] = {}
    for op_type in TIMED:
        chosen = np.flatnonzero((codes == op_type) & (duration_us > 0))
        times_us = duration_us[chosen]
        if not times_us.size or times_us.max() < times_us.min() * LEAST_RATIO:
            continue
        count = np.bincount(row[chosen], minlength=workers)
        total = np.bincount(row[chosen], np.log10(times_us), workers)
        means = np.divide(total, count, out=np.full(workers, np.nan), where=count > 0)
        known = np.sort(means[np.isfinite(means)])
        if len(known) < 2:
            continue
        off = means - known[(len(known) - 1) // 2]
        is_unit = (np.abs(np.abs(off)[:, None] - UNITS) < NEAR).any(axis=1)
        for place in np.flatnonzero(is_unit).tolist():
            rank, power = int(rows.worker_rank.ravel()[place]), float(off[place])
            found.setdefault(
                rank, f"rank {rank}: {OP_TYPES[op_type]} takes 1e{power:+.0f} of what others take"
            )
    return [found[rank] for rank in sorted(found)]


def unshown_sizes(rank_steps: pa.Table, facts: Mapping[str, object]) -> str | None:
    """Return the sizes above 1 in the manifest that the rows do not show, by name; None if there are none."""
    unshown = []
    for name, shown_by in (("tp_size", "tp_rank"), ("vpp_size", "model_chunk")):
        size, largest = facts.get(name), None
        if not isinstance(size, int) or size <= 1:
            continue
        if shown_by in rank_steps.column_names:
            column = rank_steps.column(shown_by)
            values = pc.list_flatten(column) if pa.types.is_list(column.type) else column
            largest = pc.max(values).as_py()
        if not (largest or 0) > 0:
            unshown.append(name)
    return ", ".join(unshown) or None
