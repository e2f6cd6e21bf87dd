"""host_clock: how the clock of each host went, against the others of the unit."""

from dataclasses import replace

import pyarrow as pa

from schemas.fields import HOST, RANK, UNIT, count, described
from schemas.table import Column, Expectation, Table
from schemas.vocabulary import HOST_CLOCK, UNIT_KEY


def _seconds(name: str, meaning: str, *, nullable: bool = False) -> Column:
    return Column(name, pa.float64(), meaning, unit="s", nullable=nullable)


TABLE = Table(
    name=HOST_CLOCK,
    meaning=(
        "One row per clock of a replayed unit: a host, or a rank whose log names no host. Estimated from the "
        "ends of transfers and collectives, which are one instant on all hosts that take part. Offsets are "
        "against the median clock of those joined so: of two hosts each shows half of what they are apart."
    ),
    grain=(*UNIT_KEY, "clock"),
    columns=(
        *UNIT,
        Column("clock", pa.string(), "the host; where the log names none, rank and its number"),
        described(HOST, "machine whose clock it is; null where the log does not say"),
        replace(RANK, meaning="lowest replayed rank whose times are from this clock"),
        count(
            "part",
            "clocks with equal numbers are joined by transfers or collectives",
        ),
        _seconds("offset_s", "how far the clock is ahead, mean over steps"),
        _seconds(
            "largest_offset_s", "how far it is ahead where it is furthest from the median clock, signed"
        ),
        Column(
            "drift_ppm",
            pa.float64(),
            "how fast it gains on the median clock",
            unit="ppm",
        ),
        count("jumps", "times that it was set within the recorded steps"),
        _seconds("largest_jump_s", "the largest of these, signed; 0 without one"),
        _seconds(
            "error_s", "standard error of offset_s; null for a clock with nothing to compare", nullable=True
        ),
        Column("is_corrected", pa.bool_(), "whether the replay used times with these offsets taken away"),
    ),
    expectations=(
        Expectation(
            "a_single_clock_is_not_off",
            "error_s IS NOT NULL OR (offset_s = 0 AND jumps = 0 AND NOT is_corrected)",
            "of a clock with nothing to compare nothing is said",
        ),
    ),
)
