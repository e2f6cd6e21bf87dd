"""Time of each microbatch over all stages and chunks, without the effect of doubtful computes.

Axes p, k, c, m, s, d: stage, direction, chunk, microbatch, step, dp rank. A place: stage, direction, chunk.
"""

from typing import Final

import numpy as np

from udfs.kernel.arrays import Floats, Mask
from udfs.kernel.diagnosis.block_times import Tensor
from udfs.kernel.selection import medians_of_rows, quantile_of_all, sorted_rows

LEAST_CLEAN: Final = 0.1
"""Share of the microbatches that must be without doubt to estimate the doubtful ones."""

LEAST_SLOPE: Final = 0.01
"""A place is proportional to the data if it varies by at least this part of its mean."""

WITHIN: Final = 0.9
"""Lines are fitted to this share of the microbatches without doubt; they are not extrapolated to the longest.
On a published trace with longer microbatches inserted, extrapolated lines were off by 3.6 % of the step,
these by 1.1 %."""

MOST_APART: Final = 1.5
"""If places disagree more than this about a microbatch, they do not show how places vary with the data."""

ENOUGH_PLACES: Final = 2
"""A single place may be long without doubt being cast on it."""

TINY_S: Final = 1e-9


def totals(times_s: Tensor, doubtful: Mask) -> Floats:
    """Sum each microbatch's time over stages and chunks, with estimates for doubtful times; (k, m, s, d). [s]

    A stage takes a constant beside what goes with the data. So a doubtful time is not left out, but is what
    the lines through the microbatches without doubt say of it: else light ones would look too light. What is
    longer than most of them counts as it is, because long sequences take more than lines say.
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
        # Long sequences lengthen one direction more: the other is asked where this one has too few places.
        asked = unclear | (np.count_nonzero(~of_kind, axis=0) >= ENOUGH_PLACES)
        asked[kind * p * c : (kind + 1) * p * c] = of_kind
        said_s = _by_others(clean_s, mean_s, unclean_s, asked, of_clean_s)
        is_said = of_kind.any(axis=0) & (said_s <= quantile_of_all(of_clean_s, WITHIN))
        total_s[kind, unclean[is_said]] = said_s[is_said]
    return total_s.reshape(k, m, s, d)


def _by_others(clean_s: Floats, mean_s: Floats, unclean_s: Floats, doubt: Mask, total_s: Floats) -> Floats:
    """Return microbatch totals by trusted stages and chunks, inf if there are none; shape (unclean,). [s]

    clean_s, unclean_s : times by place, shape (place, microbatch). [s]
    mean_s, total_s    : of the clean ones, by place and of all places. [s]
    """
    of_all_s = float(total_s.mean())
    over_s = total_s - of_all_s
    slope = (clean_s @ over_s) / max(float(over_s @ over_s), TINY_S**2)
    least = LEAST_SLOPE * mean_s / max(of_all_s, TINY_S)
    said_s = (unclean_s - mean_s[:, None]) / np.maximum(np.maximum(slope, least), TINY_S)[:, None]
    # Places without doubt may be long as well: the lower median of what they say.
    said_s = sorted_rows(np.where(doubt, np.inf, said_s))
    middle = (np.count_nonzero(~doubt, axis=0) - 1) // 2
    found_s: Floats = of_all_s + said_s[middle, np.arange(middle.size)]
    return np.maximum(found_s, TINY_S)
