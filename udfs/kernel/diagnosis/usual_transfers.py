"""Compute the usual time of each kind of transfer, and the limit above which a transfer is slow.

If all transfers of a step are slow, the network is congested, and no single link is slow.
"""

from collections.abc import Collection, Mapping
from statistics import median_low
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Ints
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
"""The usual time is the median of the transfers within this band, in multiples of the low quantile."""

LEAST_FACTOR: Final = 1.8
MADS: Final = 5.0
"""A transfer is slow above the larger of LEAST_FACTOR and exp(MADS * MAD of logs) times the usual time."""

SAME_KIND: Final = 3.0
"""A kind's usual time is not used if it exceeds this multiple of the usual time of its op type, or of the
opposite direction. The shorter time is used then, because equal amounts of data are moved."""

LEAST_S: Final = 1e-6

CLEARLY: Final = 1.0 - 1e-9
"""Factor for bounds, so that rounding does not change on which side of a bound a value is."""

TRAFFIC: Final = (ot.TRANSFERS, (ot.PARAMS_ALL_GATHER, ot.GRADS_REDUCE_SCATTER, ot.SEPARATE_GRADS_ALL_REDUCE))
"""Op types that share a network: along the pipeline, and between replicas."""

BACK_AND_FORTH: Final = {
    op_type: pair
    for pair in ((ot.FORWARD_SEND, ot.BACKWARD_SEND), (ot.FORWARD_RECV, ot.BACKWARD_RECV))
    for op_type in pair
}
"""Op types that move equal data, by op type; not sends and recvs, as a buffered send ends once data are
copied."""

LEAST_LOG: Final = float(np.log(1.3))
LEAST_LOG_OF_FEW: Final = float(np.log(1.8))
"""Least log factor by which a congested step is slower: with at least ENOUGH_KINDS kinds, and with fewer. A
gap of the second between successive step times also separates the fastest steps from the others."""

ENOUGH_KINDS: Final = 3
BOTH_WAYS: Final = 4
"""Number of kinds of pipeline transfers: sends and recvs of both directions."""

ENOUGH_STEPS: Final = 0.1
"""Uncongested are the fastest steps that agree: two and this share, or fewer if the next step is far slower.
"""

ERRORS: Final = 5.0
MAD_TO_ERROR: Final = 1.4826 * 1.2533
"""Standard error of the median of n values, over their median absolute deviation, times sqrt(n)."""

Kind = tuple[int, int, int]
"""Transfers with one usual time: (op type, stage, chunk), and for pipeline transfers (op type, ALL, ALL)."""

ALL: Final = -1
NO_PEER: Final = -2
"""Instead of a stage: transfers of all stages; and transfers without a peer that belong to a call."""


class Usual(NamedTuple):
    """Usual time of a kind of transfers, and the limit above which a transfer is slow. [s]"""

    base_s: float
    limit_s: float


class Band(NamedTuple):
    """Range of transfer times that count as usual, and their median. [s]"""

    usual_s: float
    first_s: float
    last_s: float


class SlowOps(NamedTuple):
    """Transfers or data-loads of one block that a fix changes, or whose own duration was not recorded.

    ops     : int, shape (op,).
    as_is_s : float64, shape (op, step, dp); recorded times, limited to the usual time where only the time of
              a whole call was recorded. [s]
    usual_s : same shape; times without congestion, and slow ops at their usual time. [s]
    """

    ops: Ints
    as_is_s: Floats
    usual_s: Floats


NOTHING_KNOWN: Final = Usual(LEAST_S, np.inf)
NO_DAYS: Final[Mapping[int, float]] = MappingProxyType({})
NO_STEPS: Final[Mapping[Kind, Floats]] = MappingProxyType({})


def limits_of(
    known: dict[Kind, Floats],
    before_s: Mapping[int, float] = NO_DAYS,
    medians_s: Mapping[Kind, Floats] = NO_STEPS,
    cut: Collection[Kind] = (),
) -> dict[Kind, Usual]:
    """Return usual times and limits by kind; a kind far slower than similar kinds gets their usual time.

    known     : transfer times of each kind, in any order. [s]
    before_s  : usual time of an op type on earlier days, used if all kinds of the type became slow. [s]
    medians_s : median transfer of a kind in each step, without congestion; shape (step,). [s]
    cut       : kinds whose true times exceed the recorded ones; other kinds are not compared with them.
    """
    usual = {kind: _band(values, medians_s.get(kind)) for kind, values in known.items()}
    bases: dict[int, list[float]] = {}
    for kind, band in usual.items():
        bases.setdefault(kind[0], []).append(band.usual_s)
    low_s = {op_type: median_low(base_s) for op_type, base_s in bases.items()}
    became = {}  # usual time over that of earlier days, if it is far longer
    for op_type, each_s in low_s.items():
        day_s = before_s.get(op_type, 0.0)
        became[op_type] = each_s / day_s if each_s > LEAST_FACTOR * day_s > 0.0 else 1.0
    now_s = {op_type: each_s / became[op_type] for op_type, each_s in low_s.items()}
    whole = {kind[0] for kind, values in known.items() if values.size and kind not in cut}
    alike_s = {
        op_type: min([each_s, *(now_s[other] for other in BACK_AND_FORTH.get(op_type, ()) if other in whole)])
        for op_type, each_s in now_s.items()
    }
    limits = {}
    for op_type, each_s in now_s.items():
        is_slow = each_s > SAME_KIND * alike_s[op_type]
        limits[op_type, NO_PEER, ALL] = Usual(alike_s[op_type] if is_slow else each_s, np.inf)
    for kind, values in known.items():
        band, op_type = usual[kind], kind[0]
        base_s = band.usual_s / became[op_type]
        measure_s = base_s if base_s <= SAME_KIND * alike_s[op_type] else alike_s[op_type]
        factor = LEAST_FACTOR
        is_scattered = values.size and values.max() > factor * measure_s and measure_s == band.usual_s
        if is_scattered and not _is_narrow(values, band):
            factor = max(factor, float(np.exp(MADS * _scatter(values, band))))
        limits[kind] = Usual(measure_s, factor * measure_s)
    return limits


def _band(values: Floats, median_s: Floats | None = None) -> Band:
    """Return the band of times that count as usual, around a low quantile, with the median of the band.

    median_s : median transfer of each step, nan without one. If the low quantile is far above the time in
               quiet steps, because the kind became slow, only transfers as fast as in these steps count. [s]
    """
    if not values.size:
        return Band(LEAST_S, LEAST_S, LEAST_S)
    # A few values are sorted once for all quantiles; of many, each quantile is selected.
    ordered = np.sort(values) if values.size <= MANY else None
    low = quantile_of_all(values, LOW_QUANTILE) if ordered is None else float(quantile(ordered, LOW_QUANTILE))
    # Comparing with the fastest step first mostly avoids computing the quiet steps, which are not faster.
    if median_s is not None and not low <= CLEARLY * LEAST_FACTOR * np.fmin.reduce(median_s):
        # Transfer time of a kind in the fastest steps that agree; infinite if unknown. [s]
        logs = np.log(np.maximum(median_s[np.isfinite(median_s)], LEAST_S))
        quiet_s = float(np.exp(_uncongested(logs, LEAST_LOG))) if len(logs) > 1 else float("inf")
        if not low <= LEAST_FACTOR * quiet_s:
            return _band(values[values <= LEAST_FACTOR * quiet_s])
    low_s = max(low, LEAST_S)
    first_s, last_s = USUAL_BAND[0] * low_s, USUAL_BAND[1] * low_s
    if ordered is not None:
        first, end = np.searchsorted(ordered, first_s), np.searchsorted(ordered, last_s, side="right")
        usual_s = max(float(median(ordered[first:end])), LEAST_S) if end > first else low_s
        return Band(usual_s, first_s, last_s)
    below = int(np.count_nonzero(values < first_s))
    number = values.size - below - int(np.count_nonzero(values > last_s))
    if not number:
        return Band(low_s, first_s, last_s)
    lower, upper = neighbours(values, below + (number - 1) // 2)
    return Band(max(lower if number % 2 else (lower + upper) / 2, LEAST_S), first_s, last_s)


def _is_narrow(values: Floats, band: Band) -> bool:
    """Return whether over half of the values are within a factor of LEAST_FACTOR ** (1 / MADS) of usual."""
    width = LEAST_FACTOR ** (1 / MADS)
    first_s, last_s = max(band.usual_s / width, band.first_s), min(band.usual_s * width, band.last_s)
    return bool(2 * np.count_nonzero((values >= first_s) & (values <= last_s)) > values.size)


def _scatter(values: Floats, band: Band) -> float:
    """Return the median absolute deviation of log times in the band; infinite if the band has no values."""
    within_s = values[(values >= band.first_s) & (values <= band.last_s)]
    if not within_s.size:
        return float("inf")
    ratio = np.maximum(within_s, LEAST_S) / band.usual_s
    np.maximum(ratio, 1.0 / ratio, out=ratio)
    lower, upper = np.log(neighbours(ratio, (ratio.size - 1) // 2)).tolist()
    return float(lower if ratio.size % 2 else (lower + upper) / 2)


def step_factors(median_s: Floats) -> Floats:
    """Return the factor by which congestion slows the transfers of each step; 1 without congestion.

    Steps are compared with the fastest steps that agree with each other, because most steps may be congested.

    median_s : float64, shape (kind, step); median transfer of each kind, nan if a step has none. [s]
    returns  : float64, shape (step,).
    """
    steps = median_s.shape[1]
    known = median_s[np.isfinite(median_s).all(axis=1)]
    if not len(known) or steps < 2:
        return np.ones(steps)
    logs = np.log(known)
    if len(known) > BOTH_WAYS:
        relative = logs - medians_along(logs, 1)[:, None]
        slow = medians_along(relative, 0)
    else:  # Half of the kinds may be one direction, which may be slow by itself in most steps.
        relative = logs - np.array([[_uncongested(own, LEAST_LOG_OF_FEW)] for own in logs])
        slow = medians_along(relative, 0, low=True)
    scatter = median_of_all(np.abs(relative - slow).reshape(-1))
    error = MAD_TO_ERROR * scatter / np.sqrt(len(known))
    least = LEAST_LOG if len(known) >= ENOUGH_KINDS else LEAST_LOG_OF_FEW
    limit = max(least, ERRORS * error)
    slow = slow - _uncongested(slow, limit)
    return np.where(slow > limit, np.exp(slow), 1.0)


def _uncongested(slow: Floats, limit: float) -> float:
    """Return the log transfer time without congestion: the median of the lowest values that agree.

    slow  : log times of the steps.
    limit : values agree if they differ by at most this.
    """
    ordered = np.sort(slow)
    enough = max(2, int(np.ceil(ENOUGH_STEPS * len(ordered))))
    first = 0
    while True:
        end = int(np.searchsorted(ordered, ordered[first] + limit, side="right"))
        is_far = end == len(ordered) or ordered[end] - ordered[end - 1] > LEAST_LOG_OF_FEW
        if end - first >= enough or is_far:
            return float(median(ordered[first:end]))
        first += 1
