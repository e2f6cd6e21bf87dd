"""host_clock: the clock of each host compared with the others of the unit."""

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
        "One row per clock of a replayed unit: a host, or a rank without a logged host. Estimated from the "
        "ends of transfers and collectives, which are the same instant on all hosts involved. Offsets are "
        "against the median clock of the hosts so joined: each of two hosts shows half their difference."
    ),
    grain=(*UNIT_KEY, "clock"),
    columns=(
        *UNIT,
        Column("clock", pa.string(), "the host; without a logged host, its rank"),
        described(HOST, "machine of the clock; null if not logged"),
        replace(RANK, meaning="lowest replayed rank whose times are from this clock"),
        count(
            "part",
            "clocks with equal numbers are joined by transfers or collectives",
        ),
        _seconds("offset_s", "how far the clock is ahead, mean over steps"),
        _seconds("largest_offset_s", "offset at the greatest distance from the median clock, signed"),
        Column(
            "drift_ppm",
            pa.float64(),
            "how fast it gains on the median clock",
            unit="ppm",
        ),
        count("jumps", "how often it was set within the recorded steps"),
        _seconds("largest_jump_s", "the largest of these, signed; 0 without one"),
        _seconds(
            "error_s", "standard error of offset_s; null for a clock with nothing to compare", nullable=True
        ),
        Column("is_corrected", pa.bool_(), "whether the replay used times corrected by these offsets"),
    ),
    expectations=(
        Expectation(
            "a_single_clock_is_not_off",
            "error_s IS NOT NULL OR (offset_s = 0 AND jumps = 0 AND NOT is_corrected)",
            "a clock with nothing to compare has no offset",
        ),
    ),
)
