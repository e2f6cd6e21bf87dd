"""Replay a job of several roles: which role waits for which, what faster roles save, and the longest path.

Equations: udfs/README.md, "Jobs of several roles". Axes: (role, iteration); times are float64 seconds.
"""

from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.arrays import Floats, Ints, Mask

CLOCKS_S: Final = 0.05
SHORTEST: Final = 0.1
"""A span may begin before the end that it waits for by CLOCKS_S, as clocks differ, or by this part of the
shorter of the two spans, whichever is less."""


class Whole(NamedTuple):
    """Recorded iterations of a job that consists of runs with several roles.

    number   : int64, shape (iteration,); ascending.
    start_s, end_s : shape (role, iteration); first start and last end of the role's steps, nan without any.
    busy_s   : shape (role, iteration); time in which at least one of the role's steps runs.
    runs     : int64, shape (role, iteration); number of runs with steps.
    role, iteration : int64, shape (part,), where a part is one run in one iteration; positions of its role
               and iteration. The arrays below have the same shape.
    offset_s : from the start of the role's iteration to the start of the part.
    run_s, run_busy_s : from the part's first start to its last end, and time in which a step runs.
    ideal    : ideal over recorded time of its steps.
    fixed    : share of its time that remains if the run's causes are fixed, nan where unknown.
    """

    number: Ints
    start_s: Floats
    end_s: Floats
    busy_s: Floats
    runs: Ints
    role: Ints
    iteration: Ints
    offset_s: Floats
    run_s: Floats
    run_busy_s: Floats
    ideal: Floats
    fixed: Floats

    @property
    def is_there(self) -> Mask:
        """Mask of (role, iteration), true where the role has a step."""
        return ~np.isnan(self.start_s)

    @property
    def follows(self) -> Mask:
        """Mask of iterations that directly follow the previous recorded one; shape (iteration,)."""
        return np.concatenate([[False], np.diff(self.number) == 1])

    def lengths_s(self, role: int | None = None, factor: Floats | float = 1.0) -> Floats:
        """Compute the length of each role's iterations, with `role` busy `factor` times as long. [s]

        returns : shape (role, iteration); -inf where a role has no step
        """
        factors = np.where(self.role == role, factor, 1.0)
        ends_s = self.offset_s + self.run_s - self.run_busy_s * (1.0 - factors)
        lengths_s = np.full(self.start_s.shape, -np.inf)
        np.maximum.at(lengths_s, (self.role, self.iteration), ends_s)
        return lengths_s


class Waits(NamedTuple):
    """Masks that say which role waits for which; bool, shape (role waited for, role that waits).

    within : the role waits for the same iteration of the other role
    before : the role waits for the previous iteration of the other role
    """

    within: Mask
    before: Mask

    def reduced(self) -> "Waits":
        """Return the transitive reduction: without waits that follow from other waits."""
        within, before = (each.astype(np.int64) for each in self)
        return Waits(
            self.within & ~(within @ within > 0), self.before & ~(within @ before + before @ within > 0)
        )


def waits_of(whole: Whole) -> Waits:
    """Infer the waits: a role waits for another role if it never begins before the other one ends."""
    follows = whole.follows
    within = _never_before(whole.start_s, whole.end_s, whole.start_s, whole.end_s)
    now, ago = np.flatnonzero(follows), np.flatnonzero(follows) - 1
    before = _never_before(
        whole.start_s[:, ago], whole.end_s[:, ago], whole.start_s[:, now], whole.end_s[:, now]
    )
    np.fill_diagonal(within, val=False)
    return Waits(within, before)


def _never_before(first_s: Floats, end_s: Floats, start_s: Floats, last_s: Floats) -> Mask:
    """Return whether spans [start_s, last_s] never begin before spans [first_s, end_s] end; (role, role)."""
    found = np.zeros((len(end_s), len(start_s)), dtype=bool)
    for role, ends_s in enumerate(end_s):  # one at a time, so that no array has two axes of roles
        shorter_s = np.minimum(ends_s - first_s[role], last_s - start_s)
        early_s = ends_s - start_s
        is_early = early_s > np.minimum(CLOCKS_S, SHORTEST * shorter_s)
        found[role] = (~np.isnan(early_s)).any(axis=-1) & ~is_early.any(axis=-1)
    return found


class Chain(NamedTuple):
    """Spans of all roles by their starts, which is the order in which the replay visits them.

    spans : int64, shape (span, 2); role and iteration.
    waited_for : for each span, positions of the spans that it waits for.
    gap_s : shape (role, iteration); from the last end that a span waits for to its start, nan without any.
    """

    spans: Ints
    waited_for: tuple[Ints, ...]
    gap_s: Floats


def chain_of(whole: Whole, waits: Waits) -> Chain:
    """Order the spans of all roles by start, and find the spans that each span waits for."""
    spans = np.argwhere(whole.is_there)
    spans = spans[np.argsort(whole.start_s[tuple(spans.T)], kind="stable")]
    place = np.full(whole.start_s.shape, -1)
    place[tuple(spans.T)] = np.arange(len(spans))
    gap_s, waited_for, follows = np.full(whole.start_s.shape, np.nan), [], whole.follows
    for here, (role, iteration) in enumerate(spans.tolist()):
        some = place[waits.within[:, role], iteration]
        if follows[iteration]:
            some = np.concatenate([some, place[waits.before[:, role], iteration - 1]])
        some = some[(some >= 0) & (some < here)]  # spans without length may stand at one instant
        waited_for.append(some)
        if len(some):
            gap_s[role, iteration] = whole.start_s[role, iteration] - whole.end_s[tuple(spans[some].T)].max()
    return Chain(spans, tuple(waited_for), gap_s)


def replayed_s(whole: Whole, chain: Chain, lengths_s: Floats) -> float:
    """Replay all spans with the given lengths; return the longest path through spans and gaps. [s]

    lengths_s : shape (role, iteration).
    """
    ends_s = np.empty(len(chain.spans))
    for place, (role, iteration) in enumerate(chain.spans.tolist()):
        some = chain.waited_for[place]
        start_s = whole.start_s[role, iteration]
        if len(some):
            start_s = ends_s[some].max() + chain.gap_s[role, iteration]
        ends_s[place] = start_s + lengths_s[role, iteration]
    return sum(
        float(ends_s[places].max() - whole.start_s[tuple(chain.spans[places[0]])])
        for places in _stretches(whole, chain)
    )


def longest_path(whole: Whole, chain: Chain) -> tuple[Mask, Floats]:
    """Mark the spans on the longest recorded path, and return the gap before each; (role, iteration). [s]

    The gap before the first span of a path is the time since the first span of its consecutive iterations.
    """
    is_on_path = np.zeros(whole.start_s.shape, dtype=bool)
    before_s = np.zeros(whole.start_s.shape)
    ends_s = whole.end_s[tuple(chain.spans.T)]
    for places in _stretches(whole, chain):
        place = places[ends_s[places].argmax()]
        while True:
            span = tuple(chain.spans[place])
            is_on_path[span] = True
            some = chain.waited_for[place]
            if not len(some):
                before_s[span] = whole.start_s[span] - whole.start_s[tuple(chain.spans[places[0]])]
                break
            before_s[span] = chain.gap_s[span]
            place = some[ends_s[some].argmax()]
    return is_on_path, before_s


def _stretches(whole: Whole, chain: Chain) -> list[Ints]:
    """Return the positions of the spans in each stretch of consecutive iterations, sorted by start."""
    stretch = np.cumsum(~whole.follows)[chain.spans[:, 1]]
    places = np.argsort(stretch, kind="stable")
    return np.split(places, np.flatnonzero(np.diff(stretch[places])) + 1)
