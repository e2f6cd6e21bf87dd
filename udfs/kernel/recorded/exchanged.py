"""Find ranks of a stage whose records are swapped, which shows in transfers that do not match."""

from collections import Counter
from itertools import combinations
from typing import Final

import numpy as np

from udfs.kernel.recorded.ends import Ends, links, sampled
from udfs.kernel.recorded.trace import StepBlock
from udfs.kernel.selection import median_of_all, medians_along, ranked

STEPS: Final = 8
"""Most steps that are examined."""

SCATTERED: Final = 5.0
LEAST_S: Final = 1e-3
"""A link is suspected if its scatter exceeds both SCATTERED times the usual scatter and LEAST_S. [s]"""

BETTER: Final = 0.3
"""If swapped records are swapped back, both ranks scatter less than this part of what either did before."""

FEW_RANKS: Final = 4
"""Up to this number of dp ranks, two swapped ranks would change the usual scatter; LEAST_S alone then
counts."""

MOST_SCATTERED: Final = 16
"""If more dp ranks of a link scatter, swapped records are not the reason, and no pair is tested."""

Exchanged = tuple[int, int, int]
"""Stage, and the two dp ranks whose records are swapped."""


def exchanged(block: StepBlock, ends: Ends) -> list[Exchanged]:
    """Find pairs of dp ranks whose records are swapped on a stage.

    The two ends of a transfer differ by the difference of two clocks, which is the same for all transfers of
    a step. The ends of workers that did not exchange data scatter instead. With two stages, the swap may be
    on either; the first is returned.

    block, ends : as recorded; only the first STEPS steps are examined.
    """
    graph = block.graph
    own = links(graph)
    if not graph.has_dp_lanes or block.start_s.shape[-1] < 2 or not own:
        return []
    first_s, places = ends.end_s[:, :STEPS], sampled(graph)
    scatters_s = medians_along(ends.apart.spread[:, :STEPS], 1)
    are_few = scatters_s.shape[-1] <= FEW_RANKS
    limit_s = LEAST_S if are_few else max(SCATTERED * median_of_all(scatters_s.ravel()), LEAST_S)
    found: Counter[Exchanged] = Counter()
    for number in np.flatnonzero((scatters_s > limit_s).any(axis=1)).tolist():
        link, scatter_s = own[number], scatters_s[number]
        sends_s, recvs_s = (first_s[ops[places[number]]] for ops in (link.sends, link.recvs))
        last = len(sends_s) - 1
        ambiguous = np.flatnonzero(scatter_s > limit_s).tolist()
        for one, other in combinations(ambiguous, 2) if len(ambiguous) <= MOST_SCATTERED else ():
            pair = [one, other]
            # Interquartile ranges of single steps, because clocks drift and may be set between steps.
            apart_s = recvs_s[..., pair[::-1]] - sends_s[..., pair]
            low_s, high_s = ranked(apart_s, (last // 4, last - last // 4))
            if (medians_along(high_s - low_s, 0) < BETTER * scatter_s[pair].min()).all():
                found.update((stage, one, other) for stage in {link.stage, link.following})
    # Each pair of ranks is reported for the stage on which it was found most often, the first of several.
    named: dict[tuple[int, ...], Exchanged] = {}
    for key in sorted(found, key=lambda key: (-found[key], key)):
        named.setdefault(key[1:], key)
    return sorted(named.values())
