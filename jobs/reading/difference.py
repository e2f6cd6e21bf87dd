"""Difference of two runs' step times, B minus A, split into parts of several kinds; in seconds per step.

The parts of one kind, such as all causes, add up to the difference; each kind has a part for the remainder.

The interval of the difference covers the noise of steps around the course of each run: the run's level, with
its changes and drift, as udfs.noise estimates it. That a rerun may take another course is not in the
interval.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, hypot
from typing import Final

from jobs.reading.side import Side
from schemas.vocabulary import ALL_OP_TYPES, CAUSES, COUNTED_OP_TYPES
from udfs.kernel.student import ROUNDING, student_quantile
from udfs.two_runs import Divided

SLOWER: Final = "slower"
FASTER: Final = "faster"
SAME: Final = "no difference"
CHANCE: Final = "may be chance"
TOO_FEW: Final = "too few steps to tell"

CONFIDENCE: Final = 0.99
"""Confidence of an interval: high, because a check in CI that runs often should rarely fail by chance."""
SMALLEST: Final = 0.01
"""Difference up to which the verdict is SAME, as a fraction of A's step time: healthy GPUs differ by this."""

OF_STEP: Final = "step time"
OF_CAUSE: Final = "cause"
OF_OP_TYPE: Final = "op type"
OF_STAGE: Final = "stage"
OF_HOST: Final = "host"
OF_EXPOSED: Final = "exposed communication"

NOTHING_LOST: Final = "step without what is lost"
LAUNCHES: Final = "launch delays, outside the replay"
ORDER: Final = "order and number of ops"
SEVERAL: Final = "several types at once"
NOT_EXPOSED: Final = "all but exposed communication"
"""Names of the parts that are remainders: one for causes, two for ops, two for exposed communication."""


_Row = tuple[str, str, float | None, float | None, float]
"""Kind and name of a part, its time on sides A and B (None where unknown), and B minus A. [s]"""
_Rows = Iterator[_Row]


@dataclass(frozen=True)
class Part:
    """One part of the difference of two runs' step times.

    a_s, b_s      : time of the part in a step of A and of B; None for op types, stages and hosts, of which
                    only the difference is known. [s]
    share         : difference_s as a fraction of the whole difference; None if the verdict on that is SAME.
    low_s, high_s : ends of the interval of difference_s; None with too few steps. [s]
    """

    of: str
    part: str
    a_s: float | None
    b_s: float | None
    difference_s: float
    share: float | None
    low_s: float | None
    high_s: float | None
    verdict: str


@dataclass(frozen=True)
class Found:
    """Result of comparing two runs: B minus A.

    reach_s : half the width of the interval of the difference; None with too few steps; 0 if neither run's
              steps have noise. [s]
    """

    a: Side
    b: Side
    reach_s: float | None
    parts: Sequence[Part]

    @property
    def difference_s(self) -> float:
        """Return how much longer a mean step of B takes than one of A. [s]"""
        return self.b.step_s - self.a.step_s

    @property
    def relative(self) -> float:
        """Return the difference as a fraction of A's step time."""
        return self.difference_s / self.a.step_s

    @property
    def verdict(self) -> str:
        """Return whether B is SLOWER or FASTER than A; or SAME, CHANCE or TOO_FEW if neither is shown."""
        return _verdict(self.difference_s, self.reach_s, self.a.step_s)

    def exceeds(self, limit: float) -> bool:
        """Return whether B is slower than A by more than `limit`, a fraction of A's step time, beyond chance.

        With too few steps for an interval, chance is not considered.
        """
        return self.relative > limit and (self.reach_s is None or self.difference_s > self.reach_s)


def _verdict(difference_s: float, reach_s: float | None, of_s: float) -> str:
    if reach_s is None:
        return TOO_FEW
    if abs(difference_s) <= SMALLEST * of_s:
        return SAME
    if abs(difference_s) <= reach_s:
        return CHANCE
    return SLOWER if difference_s > 0 else FASTER


def find(a: Side, b: Side, confidence: float, by_ops: Divided | None) -> Found:
    """Compare two sides; return the difference of their mean step times, and the parts of the difference.

    by_ops : the difference by op type, stage and host; None if one of the sides has no recorded ops.
    """
    reach_s = _reach_s(a, b, confidence)
    bare = Found(a, b, reach_s, ())
    rows: list[_Row] = [(OF_STEP, OF_STEP, a.step_s, b.step_s, bare.difference_s)]
    if a.is_replayed and b.is_replayed:
        rows += _of_kinds(a, b, by_ops)
    parts = [
        Part(
            of=of,
            part=name,
            a_s=a_s,
            b_s=b_s,
            difference_s=difference_s,
            share=difference_s / bare.difference_s if bare.difference_s and bare.verdict != SAME else None,
            # The noise of a part is also in the whole, so the whole's interval is wide enough for a part.
            low_s=None if reach_s is None else difference_s - reach_s,
            high_s=None if reach_s is None else difference_s + reach_s,
            verdict=_verdict(difference_s, reach_s, a.step_s),
        )
        for of, name, a_s, b_s, difference_s in rows
    ]
    return Found(a, b, reach_s, parts)


def _reach_s(a: Side, b: Side, confidence: float) -> float | None:
    """Return half the width of Welch's interval of the difference of means; None with too few steps. [s]"""
    noises = [side.noise() for side in (a, b)]
    known = [each for each in noises if each is not None]
    if len(known) < len(noises):
        return None
    error = hypot(*(each.error for each in known))
    if error <= ROUNDING * max(a.step_s, b.step_s):
        return 0.0
    freedom = error**4 / fsum(each.error**4 / each.freedom for each in known)
    return student_quantile((1 + confidence) / 2, freedom) * error


def _of_kinds(a: Side, b: Side, by_ops: Divided | None) -> _Rows:
    """Yield the parts by cause, by op type, stage and host, and by exposed communication, with remainders."""
    # A cause that holds on one side counts on both, else its whole loss there would seem to be a difference.
    named = a.named() | b.named()
    before, after = a.lost_s(named), b.lost_s(named)
    yield from _both(OF_CAUSE, before, after, CAUSES)
    yield _left(OF_CAUSE, NOTHING_LOST, a.step_s - fsum(before.values()), b.step_s - fsum(after.values()))
    if by_ops is not None:
        difference_s, replayed_s = b.step_s - a.step_s, b.replayed_s - a.replayed_s
        launches_s = difference_s - replayed_s
        kinds = {OF_OP_TYPE: by_ops.by_op_type, OF_STAGE: by_ops.by_stage, OF_HOST: by_ops.by_host}
        for of, parts in kinds.items():
            if parts:
                yield from ((of, name, None, None, each_s) for name, each_s in parts.items())
                yield of, LAUNCHES, None, None, launches_s
                yield of, ORDER, None, None, difference_s - launches_s - fsum(parts.values())
    before, after = a.exposed_s(), b.exposed_s()
    if not (before or after):
        return
    a_s, b_s = (each.pop(ALL_OP_TYPES, 0.0) for each in (before, after))
    yield from _both(OF_EXPOSED, before, after, COUNTED_OP_TYPES)
    yield _left(OF_EXPOSED, SEVERAL, a_s - fsum(before.values()), b_s - fsum(after.values()))
    yield _left(OF_EXPOSED, NOT_EXPOSED, a.step_s - a_s, b.step_s - b_s)


def _left(of: str, name: str, a_s: float, b_s: float) -> _Row:
    return of, name, a_s, b_s, b_s - a_s


def _both(of: str, before: Mapping[str, float], after: Mapping[str, float], names: Sequence[str]) -> _Rows:
    for name in names:
        a_s, b_s = before.get(name, 0.0), after.get(name, 0.0)
        if a_s or b_s:
            yield of, name, a_s, b_s, b_s - a_s
