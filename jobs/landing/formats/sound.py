"""Whether rows that a reader of another tool's log gives are as those of a rank log must be."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from jobs.landing.formats.rows import SCALARS, Reject, Rows
from schemas.vocabulary import REASON_NEGATIVE_TIME, REASON_NOT_FINITE, REASON_RANK_OUT_OF_RANGE

_SIZES: Final = {
    "rank": "world_size",
    "dp_rank": "dp_size",
    "pp_rank": "pp_size",
    "tp_rank": "tp_size",
    "cp_rank": "cp_size",
}
_BITS: Final = {"step": 63, "t0_us": 63, "gpu": 31}
_LARGEST: Final = 2**31 - 1


def sound(rows: Rows, limits: Mapping[str, Any], first: int) -> tuple[Rows, list[Reject]]:
    """Return the rows that are sound, and a reject for each other; numbered together from `first` on.

    limits : LIMITS of a good manifest, or nulls
    """
    lines = range(first, first + len(rows.lines))
    # What is wrong with times says more, and stands last.
    defects = _outside(rows, limits) | _too_large(rows) | _bad_times(rows)
    rejects = [Reject(*defects[place], lines[place]) for place in sorted(defects)]
    is_good = np.ones(len(lines), dtype=bool)
    is_good[list(defects)] = False
    return rows._replace(lines=lines).where(is_good), rejects


def _bad_times(rows: Rows) -> dict[int, tuple[str, str]]:
    row = np.repeat(np.arange(len(rows.lengths)), rows.lengths)
    _, start_us, duration_us, *_ = rows.lists
    is_endless = ~(np.isfinite(start_us) & np.isfinite(duration_us))
    is_negative = (start_us < 0) | (duration_us < 0)
    found = dict.fromkeys(row[is_negative].tolist(), (REASON_NEGATIVE_TIME, "a time is negative"))
    return found | dict.fromkeys(row[is_endless].tolist(), (REASON_NOT_FINITE, "a time is not finite"))


def _too_large(rows: Rows) -> dict[int, tuple[str, str]]:
    """Rows whose numbers no column holds, and zeros before 1970."""
    found = {}
    for name, bits in _BITS.items():
        place = SCALARS.index(name)
        for row, scalars in enumerate(rows.scalars):
            value = scalars[place]
            if value is not None and not -(1 << bits) <= value < 1 << bits:
                found[row] = REASON_RANK_OUT_OF_RANGE, f"{name} has more than {bits} bits"
            elif value is not None and value < 0 and name == "t0_us":
                found[row] = REASON_NEGATIVE_TIME, f"t0_us is {value}"
    return found


def _outside(rows: Rows, limits: Mapping[str, Any]) -> dict[int, tuple[str, str]]:
    found = {}
    places = {name: SCALARS.index(name) for name in _SIZES}
    for row, scalars in enumerate(rows.scalars):
        for name, size in _SIZES.items():
            value, bound = scalars[places[name]], limits.get(size)
            if value is not None and not 0 <= value < (bound or _LARGEST):
                detail = f"{name} is {value}, not below {size} {bound}"
                found[row] = REASON_RANK_OUT_OF_RANGE, detail
    return found
