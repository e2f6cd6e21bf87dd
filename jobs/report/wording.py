"""Numbers and times as people read them, by the same rules as words.js, and words for hosts."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from jobs.runtime.plural import plural

MISSING: Final = "\N{EN DASH}"
"""Text in place of a number that is not known."""
BEYOND_ALL: Final = "above 100 %, as the other ops are faster than the ideal"
"""Why a part of the waste may be more than all of it."""
BELOW_NOTHING: Final = "below 0, as their ops are faster than the ideal"
"""Why a part of the waste may be negative."""
_FAR: Final = 0.1
"""Most by which a part may change, as a fraction of it, so that rounded parts add up."""
FIX_OF_PAUSES_APART: Final = "collect garbage on all workers in the same steps"
"""What to do about pauses that strike workers in different steps."""


def hours(value: float | None) -> str:
    """Return GPU-hours without unit, with three significant digits, or as an integer from 100 on."""
    return MISSING if value is None else _digits(value)


def percent(fraction: float | None) -> str:
    """Return a fraction as a percentage with one decimal."""
    if fraction is None:
        return MISSING
    size = abs(100 * fraction)
    if 0 < size < 0.05:
        return "> -0.1 %" if fraction < 0 else "< 0.1 %"
    return f"{100 * fraction:.{0 if size >= 99.95 or size == 0 else 1}f} %"


def ratio(value: float | None) -> str:
    """Return a slowdown with two decimals."""
    return MISSING if value is None else f"{value:.2f}"


def seconds(value: float | None) -> str:
    """Return a time in the unit in which its number is between 1 and 1,000."""
    if value is None:
        return MISSING
    size = abs(value)
    if size >= 1 or size == 0:
        return f"{_digits(value)} s"
    return f"{_digits(value * 1e3)} ms" if size >= 1e-3 else f"{_digits(value * 1e6)} µs"


def minute(at: datetime) -> datetime:
    """Return a time rounded to the nearest minute, in UTC: 13:59:59.9998 becomes 14:00."""
    near = at.astimezone(UTC) + timedelta(seconds=30)
    return near.replace(second=0, microsecond=0)


def number(value: float | None) -> str:
    """Return a number without unit, with three significant digits, or as an integer from 100 on."""
    return MISSING if value is None else _digits(value)


def counted(count: float, one: str) -> str:
    """Return a count with its noun, plural where needed."""
    return plural(count, one, number(count))


def listed(names: Sequence[str], most: int) -> str:
    """Return the first `most` names, and the number of further names."""
    more = [f"{len(names) - most} more"] if len(names) > most else []
    return ", ".join([*names[:most], *more])


def adding_up(parts: Sequence[float], total: float, decimals: int | None = None) -> list[str]:
    """Return numbers as texts, followed by their sum, rounded so that the printed numbers add up exactly.

    All are rounded down at first; those that lose most by that are rounded up until the sum fits.

    parts : numbers of at least 0. total : their sum, except for floating-point errors
    decimals : number of decimals; None for those with which the sum has three significant digits, or for one
        more if a part would change by more than _FAR
    """
    if decimals is not None:
        return _summed(parts, total, decimals)
    digits = three_digits(total)
    shown = _summed(parts, total, digits)
    is_far = any(
        abs(float(each.replace(",", "")) - part) > max(0.5 / 10**digits, _FAR * part)
        for each, part in zip(shown, parts, strict=False)
    )
    return _summed(parts, total, digits + 1) if is_far else shown


def _summed(parts: Sequence[float], total: float, digits: int) -> list[str]:
    """Return numbers as texts with `digits` decimals that add up exactly, followed by their sum."""
    scaled = [part * 10**digits for part in parts]
    whole = round(float(f"{total:.{digits}f}") * 10**digits)
    low = [math.floor(each) for each in scaled]
    most = sorted(range(len(parts)), key=lambda place: low[place] - scaled[place])[: whole - sum(low)]
    rounded = [each + (place in most) for place, each in enumerate(low)]
    return [f"{each / 10**digits:,.{digits}f}" for each in (*rounded, sum(rounded))]


def _digits(value: float) -> str:
    """Return integers from 100 on, millions from 1,000,000 on, else three significant digits; -0 is 0."""
    if abs(value) >= 1e6:
        return f"{_digits(value / 1e6)} million"
    text = f"{value:,.{three_digits(value)}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in {"-0", ""} else text


def three_digits(value: float) -> int:
    """Return the number of decimals for three significant digits, at most 4."""
    size = abs(value)
    return 0 if size >= 99.95 or size == 0 else min(max(2 - math.floor(math.log10(size)), 0), 4)


def host_record(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of the named query hosts in words, for a table of hosts."""
    return {
        "host": row["host"],
        "slow_in": f"{row['jobs_slow']} of {counted(row['jobs'], 'job')}",
        "jobs_slow": row["jobs_slow"],
        "expected": row["expected_jobs_slow"],
        "recurrence": recurrence(row),
        "pattern": row["pattern"].replace("_", "-"),
        "days_slow": row["days_slow"],
        "first": str(row["first_slow"]),
        "last": str(row["last_slow"]),
    }


def recurrence(row: Mapping[str, Any]) -> str:
    """Return a verdict on a host: whether causes name it, and whether it is slow in more jobs than by chance.

    In brackets is an upper bound of the probability that chance alone makes any of the tested hosts slow in
    as many jobs. If the bound is 1, the number of jobs is no evidence.
    """
    likely = row["p_value"] * row["hosts_asked_about"]
    chance = "less than 0.1 %" if likely < 0.001 else percent(likely)
    measured = f"slow: measured in {counted(row['jobs_measured'], 'job')}"
    recurs = row["jobs_slow"] > 1
    could_be = f"could be chance ({chance})" if likely < 1.0 else "is no evidence"
    texts = {
        "measured_and_recurs": f"{measured}, and slow in more jobs than chance explains ({chance})",
        "measured": measured + (f"; their number alone {could_be}" if recurs else ""),
        "recurs": f"slow in more jobs than chance explains ({chance}), though no job's cause names it",
        "not_proven": "not proven: no job's cause names it"
        + (f", and the number of jobs alone {could_be}" if recurs else ""),
    }
    return texts.get(row["verdict"], MISSING)
