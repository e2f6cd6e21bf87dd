"""Detect times that no training has, because a producer used a unit other than microseconds.

Said at once and of the unit as a whole, because durations in seconds replay as well as any others.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.selection import evenly
from udfs.op_lists import lists_of_rows
from udfs.simulate.odd_records import is_of_day, log_day

SHORTEST_US: Final = 1e3
LONGEST_US: Final = 86_400e6
"""A step takes at least a millisecond and at most a day. [us]"""

SHORTEST_OP_US: Final = 1.0
"""The longest op of a step takes more; quotients of shorter ones may overflow. [us]"""

SAMPLED: Final = 3
"""Steps that are looked at."""

LONGEST_IN_SECONDS: Final = 60.0
"""A number above is rather of milliseconds than of seconds: steps seldom take longer."""

ENOUGH_OPS: Final = 8
"""Ops of a line, of which each takes as long as all before it only where durations are ends."""

OTHER_UNIT: Final = 10.0
"""Where on every line an op takes so many times as long as the last start, these have another unit."""

LEAST_BUSY: Final = 0.005
"""The ops of a step fill more of it, waiting for others included."""

LONGEST_IN_GAPS: Final = 30.0
"""A step takes no longer than from its begin to the next one's: far less than a thousand times that."""

T0_IN_NS: Final = (631_152_000e9, 4_102_444_800e9)
"""Of the years 1990 and 2100. [ns]"""

UNITS_US: Final = {"seconds": 1e6, "milliseconds": 1e3, "nanoseconds": 1e-3}
"""How many microseconds each has."""


def implausible_times(rank_steps: pa.Table) -> str | None:
    """Describe an implausible step time and the unit probably meant; None if times are plausible.

    The length of a step is that of its longest line, because zeros of lines may have the right unit.
    """
    number = rank_steps.column("step").to_numpy()  # nan where it is null
    steps = np.unique(number[np.isfinite(number)])
    of_step = [np.flatnonzero(number == steps[at]) for at in evenly(len(steps), SAMPLED)]
    lists = lists_of_rows(rank_steps, np.concatenate(of_step), ("start_us", "duration_us"))
    if lists is None or not len(lists.place):
        return None
    start_us, duration_us = lists.values
    span_us = np.maximum.reduceat(start_us + duration_us, lists.first)
    span_us -= np.minimum.reduceat(start_us, lists.first)
    step = np.repeat(np.arange(len(of_step)), list(map(len, of_step)))[lists.place]
    longest_us = np.full(len(of_step), -np.inf)
    with np.errstate(invalid="ignore"):  # Times that are no numbers are found when ops are laid out.
        np.maximum.at(longest_us, step, span_us)
    took_us = float(np.median(longest_us[np.unique(step)]))
    mixed = _mixed_units(start_us, duration_us, lists.first, span_us) if took_us else None
    if mixed is not None and took_us >= SHORTEST_US:
        return mixed
    if not took_us or not np.isfinite(took_us) or SHORTEST_US <= took_us <= LONGEST_US:
        return _beside_zeros(rank_steps, number, float(np.median(span_us)))
    if took_us > LONGEST_US:
        return f"steps of {took_us / LONGEST_US:.3g} days: are these nanoseconds?"
    meant = "seconds" if took_us <= LONGEST_IN_SECONDS else "milliseconds"
    return f"steps of {took_us:.3g} us: are these {meant}?"


def _mixed_units(start_us: Floats, duration_us: Floats, first: Ints, span_us: Floats) -> str | None:
    """Say which of starts and durations has another unit, or that durations are ends.

    first   : of each line's ops, shape (line,).
    span_us : of each line. [us]
    """
    of_line = np.diff(first, append=len(start_us)) >= ENOUGH_OPS
    longest_us = float(duration_us.max())
    with np.errstate(invalid="ignore"):
        are_ends = np.minimum.reduceat(duration_us - start_us, first)[of_line] >= 0.0
        longest_of_line, last_us = (
            np.maximum.reduceat(each, first)[of_line] for each in (duration_us, start_us)
        )
        busy = (np.add.reduceat(duration_us, first) / np.maximum(span_us, SHORTEST_US))[of_line]
    if len(last_us) and (longest_of_line > OTHER_UNIT * last_us).all():
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


def _beside_zeros(rank_steps: pa.Table, number: Floats, took_us: float) -> str | None:
    """Suggest nanoseconds where zeros lie thousands of years ahead, or steps begin far closer than they last.

    took_us : of most lines. [us]
    """
    if "t0_us" not in rank_steps.column_names:
        return None
    t0_us = rank_steps.column("t0_us").to_numpy()  # nan where it is null
    is_known = np.isfinite(number) & np.isfinite(t0_us)
    if not is_known.any():
        return None
    middle = float(np.median(t0_us[is_known]))
    if T0_IN_NS[0] <= middle < T0_IN_NS[1]:
        return f"t0_us is {middle:.0f}, after the year 9999: are these nanoseconds?"
    steps = np.unique(number[is_known])
    follows = np.flatnonzero(np.diff(steps) == 1)
    pairs = [follows[at] for at in evenly(len(follows), SAMPLED)] if len(follows) else []
    begin_us = [
        float(np.median(t0_us[is_known & (number == step)])) for at in pairs for step in steps[at : at + 2]
    ]
    gap_us = float(np.median(np.diff(begin_us)[::2])) if begin_us else 0.0
    if SHORTEST_US <= gap_us < took_us / LONGEST_IN_GAPS:
        return f"steps of {took_us / 1e6:.3g} s begin {gap_us / 1e6:.3g} s apart: are these nanoseconds?"
    return None


def implausible_zeros(rank_steps: pa.Table, facts: Mapping[str, object], margin_s: float) -> str | None:
    """Suggest the unit in which t0_us would lie on the log date; None if it does already."""
    day = log_day(facts, margin_s)
    t0_us = rank_steps.column("t0_us").drop_null().to_numpy() if day is not None else np.empty(0)
    if day is None or not len(t0_us):
        return None
    middle = float(np.median(t0_us))
    for unit, in_us in UNITS_US.items():
        if is_of_day(np.array([middle * in_us]), day).all():
            return f"t0_us is {middle:.0f}, of another day: are these {unit}?"
    return None
