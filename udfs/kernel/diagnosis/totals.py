"""Sum each microbatch's time over stages and chunks, with estimates for doubtful computes.

A place is one stage, direction and chunk. Axes p, k, c, m, s, d: stage, direction, chunk, microbatch, step,
dp rank.
"""

from typing import Final

import numpy as np

from udfs.kernel.arrays import Floats, Mask
from udfs.kernel.diagnosis.block_times import Tensor
from udfs.kernel.selection import medians_of_rows, quantile_of_all, sorted_rows

LEAST_CLEAN: Final = 0.1
"""Doubtful computes are estimated only if at least this share of the microbatches has no doubtful compute."""

LEAST_SLOPE: Final = 0.01
"""Least slope of a place's time against the total time, as a share of the ratio of their means."""

WITHIN: Final = 0.9
"""Estimated totals above this quantile of the totals without doubt are not used, as lines are not
extrapolated. On a published trace with longer microbatches inserted, extrapolated lines were wrong by 3.6 %
of the step, and with this limit by 1.1 %."""

MOST_APART: Final = 1.5
"""Lines are fitted to microbatches whose relative times differ between places by at most this factor."""

ENOUGH_PLACES: Final = 2
"""The other direction is used too if fewer places are without doubt, as one place may be long by itself."""

TINY_S: Final = 1e-9


def totals(times_s: Tensor, doubtful: Mask) -> Floats:
    """Sum each microbatch's time over stages and chunks, with estimates for doubtful times; (k, m, s, d). [s]

    The work of a stage is the sum of a constant and a part proportional to the data. A microbatch with
    doubtful times therefore gets the total that lines, fitted to the microbatches without doubt, give for its
    other times. Estimates above the quantile WITHIN are not used, because long sequences take longer than
    lines predict; the recorded sum is used then.
    """
    p, k, c, m, s, d = times_s.shape
    total_s: Floats = times_s.sum(axis=(0, 2)).reshape(k, -1)
    if not doubtful.any() or p * k * c == 1:
        return total_s.reshape(k, m, s, d)
    by_place = times_s.swapaxes(0, 1).reshape(k * p * c, -1)
    doubt = doubtful.swapaxes(0, 1).reshape(by_place.shape)
    is_clean = ~doubt.any(axis=0)
    unclean = np.flatnonzero(~is_clean)
    relative = by_place / np.maximum(medians_of_rows(by_place), TINY_S)[:, None]
    is_clean &= relative.max(axis=0) <= MOST_APART * relative.min(axis=0)
    if np.count_nonzero(is_clean) < LEAST_CLEAN * is_clean.size:
        return total_s.reshape(k, m, s, d)
    clean_s = np.asfortranarray(by_place.compress(is_clean, axis=1))
    unclean_s, unclear = by_place[:, unclean], doubt[:, unclean]
    mean_s = clean_s.mean(axis=1)
    for kind, of_kind in enumerate(np.split(unclear, k)):
        of_clean_s = total_s[kind, is_clean]
        # Long sequences lengthen one direction more, so the other is used only where this one has few places.
        unused = unclear | (np.count_nonzero(~of_kind, axis=0) >= ENOUGH_PLACES)
        unused[kind * p * c : (kind + 1) * p * c] = of_kind
        of_all_s = float(of_clean_s.mean())
        over_s = of_clean_s - of_all_s
        slope = (clean_s @ over_s) / max(float(over_s @ over_s), TINY_S**2)
        least = LEAST_SLOPE * mean_s / max(of_all_s, TINY_S)
        said_s = (unclean_s - mean_s[:, None]) / np.maximum(np.maximum(slope, least), TINY_S)[:, None]
        # The lower median of the estimates, because a place without doubt may be long too; inf without any.
        said_s = sorted_rows(np.where(unused, np.inf, said_s))
        middle = (np.count_nonzero(~unused, axis=0) - 1) // 2
        said_s = np.maximum(of_all_s + said_s[middle, np.arange(middle.size)], TINY_S)
        is_said = of_kind.any(axis=0) & (said_s <= quantile_of_all(of_clean_s, WITHIN))
        total_s[kind, unclean[is_said]] = said_s[is_said]
    return total_s.reshape(k, m, s, d)
