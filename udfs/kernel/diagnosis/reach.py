"""Group slow workers into culprits, each of which is a worker, host, rack, stage or replica."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.cause import ALL, HOST, RACK, REPLICA, STAGE, WORKER, Culprit
from udfs.kernel.diagnosis.course import course_of

MOST_OF: Final = 0.6
"""A host, rack, stage or replica is a culprit if at least this share of its workers is slow together."""

SAME_STEPS: Final = 0.5
"""A worker is slow together with its group if both are slow in this share of the steps in which either is."""

LEAST_EFFECT: Final = 0.03
BEYOND: Final = 1.5
"""A worker is named in addition to its group if it exceeds the group by LEAST_EFFECT in some step, and if its
mean excess is more than BEYOND times the group's."""


class Series(NamedTuple):
    """Slowness of one worker in one direction, or in ops of one type.

    share     : excess of each step over the usual time, as a share of it, shape (step,); 0 if not slow.
    positions : int, shape (step,); positions of these steps among the job's steps, in the order of time.
    error     : standard error of a share.
    usual_s   : usual time of these ops in a step. [s]
    """

    stage: int
    dp_rank: int
    direction: int
    share: Floats
    positions: Ints
    error: float
    usual_s: float


def grouped(slow: Sequence[Series], hosts: Ints, racks: Ints | None = None) -> list[Culprit]:
    """Group slow workers by host, rack, stage or replica if most workers of it are slow in the same steps.

    hosts, racks : int, shape (stage, dp_rank); -1 where unknown.
    """
    left = list(slow)
    named: list[Culprit] = []
    stages, dp_ranks = hosts.shape
    of_stage = np.repeat(np.arange(stages)[:, None], dp_ranks, axis=1)
    of_replica = np.repeat(np.arange(dp_ranks)[None], stages, axis=0)
    places = {HOST: hosts, RACK: np.full_like(hosts, ALL) if racks is None else racks}
    places |= {STAGE: of_stage, REPLICA: of_replica}
    for direction in dict.fromkeys(each.direction for each in slow):
        while True:
            own = [each for each in left if each.direction == direction]
            groups = list(_groups(own, places))
            reach, place, members = max(groups, key=lambda group: len(group[2]), default=(ALL, ALL, []))
            if not members:
                break
            named.append(
                _culprit(_typical(members))._replace(
                    stage=place if reach == STAGE else ALL,
                    dp_rank=place if reach == REPLICA else ALL,
                    reach=reach,
                    host=place if reach in (HOST, RACK) else ALL,
                    workers=tuple((each.stage, each.dp_rank) for each in members),
                )
            )
            left = [each for each in left if not any(each is member for member in members)]
            left += _beyond(members)
    named += [_culprit(each) for each in left]
    return named


def _groups(own: Sequence[Series], places: Mapping[int, Ints]) -> Iterator[tuple[int, int, list[Series]]]:
    """Yield (reach, number, slow workers) of hosts, racks ... with most workers slow in the same steps.

    places : reach -> number of each worker's host, rack, stage or replica, (stage, dp_rank); -1 if unknown.
    """
    cells = tuple(np.array([(each.stage, each.dp_rank) for each in own], dtype=np.int64).reshape(-1, 2).T)
    for reach, number in places.items():
        workers = np.bincount(number[number >= 0])
        least, of_own = np.maximum(2, MOST_OF * workers), number[cells]
        here = np.bincount(of_own[of_own >= 0], minlength=len(workers))
        for place in np.flatnonzero(here >= least).tolist():
            together = _together([own[at] for at in np.flatnonzero(of_own == place).tolist()])
            if len(together) >= least[place]:
                yield reach, place, together


def _together(own: Sequence[Series]) -> list[Series]:
    """Return the workers that are slow in about the same steps as at least half of the given workers."""
    is_slow = np.array([each.share > 0.0 for each in own])
    typical = is_slow.mean(axis=0) >= 0.5
    shared = (is_slow & typical).sum(axis=1) >= SAME_STEPS * np.maximum((is_slow | typical).sum(axis=1), 1)
    return [each for each, is_alike in zip(own, shared.tolist(), strict=True) if is_alike]


def _typical(members: Sequence[Series]) -> Series:
    shares = np.sort(np.array([each.share for each in members]), axis=0)
    return members[0]._replace(share=shares[len(members) // 2])


def _beyond(members: Sequence[Series]) -> list[Series]:
    """Return the workers that are slower than their group, with their excess over the group."""
    typical = _typical(members).share
    found = []
    for each in members:
        over = (1.0 + each.share) / (1.0 + typical) - 1.0
        if over.max() > LEAST_EFFECT and each.share.mean() > BEYOND * typical.mean():
            found.append(each._replace(share=np.where(over > LEAST_EFFECT / 2, over, 0.0)))
    return found


def _culprit(each: Series) -> Culprit:
    at = np.flatnonzero(each.share > 0.0)
    course = course_of(np.log1p(each.share), float(each.error))
    return Culprit(
        each.stage,
        each.dp_rank,
        float(each.share[at].mean()),
        len(at) / len(each.share),
        int(each.positions[at[0]]),
        int(each.positions[at[-1]]),
        course.kind,
        each.direction,
        WORKER,
        lost_s=float(each.share.mean()) * each.usual_s,
    )
