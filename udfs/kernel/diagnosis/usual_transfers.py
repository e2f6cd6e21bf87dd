"""What transfers of a kind usually take, and from when on one is a fault.

Steps in which all are slow at once are a congested network, not one bad link.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats
from udfs.kernel.selection import (
    MANY,
    median,
    median_of_all,
    medians_along,
    neighbours,
    quantile,
    quantile_of_all,
)

LOW_QUANTILE: Final = 0.25
USUAL_BAND: Final = (0.5, 1.6)
"""The usual transfer is the median of those within this band around the low quantile."""

LEAST_FACTOR: Final = 1.8
MADS: Final = 5.0
SAME_KIND: Final = 3.0
"""A collective of a stage is measured by its usual time, up to this multiple of its type's."""

LEAST_S: Final = 1e-6

TRAFFIC: Final = (ot.TRANSFERS, (ot.PARAMS_ALL_GATHER, ot.GRADS_REDUCE_SCATTER, ot.SEPARATE_GRADS_ALL_REDUCE))
"""Op types that share a network: along the pipeline, and between replicas."""

LEAST_LOG: Final = float(np.log(1.3))
LEAST_LOG_OF_FEW: Final = float(np.log(1.8))
"""Slower by this log factor is congested; of few kinds, and against a single step, it must be slower."""

ENOUGH_KINDS: Final = 3
ENOUGH_STEPS: Final = 0.1
"""Share of steps that must be uncongested alike, and at least two, unless they are far from the others."""

ERRORS: Final = 5.0
MAD_TO_ERROR: Final = 1.4826 * 1.2533
"""From a median absolute deviation to the standard error of a median, but for the root of the number."""

Kind = tuple[int, int, int]
"""Transfers that take alike: pipeline transfers by type, collectives by (type, stage, chunk)."""

ALL: Final = -1
NO_PEER: Final = -2
"""In place of a stage: pipeline transfers of all stages, and those of a call that move nothing themselves."""


class Usual(NamedTuple):
    """Usual time of a kind, and above which a transfer is a fault. [s]"""

    base_s: float
    limit_s: float


class Band(NamedTuple):
    """Transfers that count for what is usual, from first_s to last_s, and their median. [s]"""

    usual_s: float
    first_s: float
    last_s: float


NOTHING_KNOWN: Final = Usual(LEAST_S, np.inf)
NO_DAYS: Final[Mapping[int, float]] = MappingProxyType({})


def limits_of(known: dict[Kind, Floats], before_s: Mapping[int, float] = NO_DAYS) -> dict[Kind, Usual]:
    """Usual times; a kind that is always far slower than others of its type is measured by those.

    before_s : usual time of an op type on earlier days; kinds of a type that all became slow are measured
               by it. [s]
    """
    usual = {kind: _band(values) for kind, values in known.items()}
    bases: dict[int, list[float]] = {}
    for kind, band in usual.items():
        bases.setdefault(kind[0], []).append(band.usual_s)
    became = {op_type: _became(_low(base_s), before_s.get(op_type)) for op_type, base_s in bases.items()}
    limits = {
        (op_type, NO_PEER, ALL): Usual(_low(base_s) / became[op_type], np.inf)
        for op_type, base_s in bases.items()
    }
    for kind, values in known.items():
        of_type_s = _low(bases[kind[0]])
        base_s = usual[kind].usual_s
        measure_s = (base_s if base_s <= SAME_KIND * of_type_s else of_type_s) / became[kind[0]]
        factor = LEAST_FACTOR
        is_scattered = values.size and values.max() > factor * measure_s and became[kind[0]] == 1.0
        if is_scattered and not _is_narrow(values, usual[kind]):
            factor = max(factor, float(np.exp(MADS * _scatter(values, usual[kind]))))
        limits[kind] = Usual(measure_s, factor * measure_s)
    return limits


def _became(usual_s: float, before_s: float | None) -> float:
    """How many times as long transfers of a type take as on earlier days; 1 where that is no fault."""
    if before_s is None or not usual_s > LEAST_FACTOR * before_s > 0.0:
        return 1.0
    return usual_s / before_s


def _band(values: Floats) -> Band:
    """The band around the low quantile; what is found within is a range of ranks."""
    if not values.size:
        return Band(LEAST_S, LEAST_S, LEAST_S)
    if values.size <= MANY:
        # Of few, a sorted copy answers all at once.
        values = np.sort(values)
        low_s = max(float(quantile(values, LOW_QUANTILE)), LEAST_S)
        first_s, last_s = USUAL_BAND[0] * low_s, USUAL_BAND[1] * low_s
        within_s = values[np.searchsorted(values, first_s) : np.searchsorted(values, last_s, side="right")]
        usual_s = max(float(median(within_s)), LEAST_S) if within_s.size else low_s
        return Band(usual_s, first_s, last_s)
    low_s = max(quantile_of_all(values, LOW_QUANTILE), LEAST_S)
    first_s, last_s = USUAL_BAND[0] * low_s, USUAL_BAND[1] * low_s
    below = int(np.count_nonzero(values < first_s))
    number = values.size - below - int(np.count_nonzero(values > last_s))
    if not number:
        return Band(low_s, first_s, last_s)
    lower, upper = neighbours(values, below + (number - 1) // 2)
    return Band(max(lower if number % 2 else (lower + upper) / 2, LEAST_S), first_s, last_s)


def _is_narrow(values: Floats, band: Band) -> bool:
    """Whether the least factor is sure to be beyond the usual scatter: half of all lie close together."""
    width = LEAST_FACTOR ** (1 / MADS)
    first_s, last_s = max(band.usual_s / width, band.first_s), min(band.usual_s * width, band.last_s)
    return bool(2 * np.count_nonzero((values >= first_s) & (values <= last_s)) > values.size)


def _scatter(values: Floats, band: Band) -> float:
    """Median absolute log deviation within the band; infinite where nothing is."""
    within_s = values[(values >= band.first_s) & (values <= band.last_s)]
    if not within_s.size:
        return float("inf")
    ratio = np.maximum(within_s, LEAST_S) / band.usual_s
    np.maximum(ratio, 1.0 / ratio, out=ratio)
    lower, upper = np.log(neighbours(ratio, (ratio.size - 1) // 2)).tolist()
    return float(lower if ratio.size % 2 else (lower + upper) / 2)


def _low(values: list[float]) -> float:
    return sorted(values)[(len(values) - 1) // 2]


def step_factors(median_s: Floats) -> Floats:
    """By how much the transfers of each step took longer than in steps without congestion; 1 where not.

    Steps are compared with the fastest that agree with each other, because most of them may be congested.

    median_s : float64, shape (kind, step); median transfer of each kind, nan where a step has none. [s]
    returns  : float64, shape (step,).
    """
    steps = median_s.shape[1]
    known = median_s[np.isfinite(median_s).all(axis=1)]
    if not len(known) or steps < 2:
        return np.ones(steps)
    logs = np.log(known)
    relative = logs - medians_along(logs, 1)[:, None]
    slow = medians_along(relative, 0)
    scatter = median_of_all(np.abs(relative - slow).reshape(-1))
    error = MAD_TO_ERROR * scatter / np.sqrt(len(known))
    least = LEAST_LOG if len(known) >= ENOUGH_KINDS else LEAST_LOG_OF_FEW
    limit = max(least, ERRORS * error)
    slow = slow - _uncongested(slow, limit)
    return np.where(slow > limit, np.exp(slow), 1.0)


def _uncongested(slow: Floats, limit: float) -> float:
    """Log time of a step without congestion: the middle of the lowest steps that agree."""
    ordered = np.sort(slow)
    enough = max(2, int(np.ceil(ENOUGH_STEPS * len(ordered))))
    first = 0
    while True:
        end = int(np.searchsorted(ordered, ordered[first] + limit, side="right"))
        is_far = end == len(ordered) or ordered[end] - ordered[end - 1] > LEAST_LOG_OF_FEW
        if end - first >= enough or is_far:
            return float(median(ordered[first:end]))
        first += 1
