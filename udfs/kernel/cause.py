"""Causes of a slowdown as the diagnosis finds them, coded as integers because the kernel has no strings."""

from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.arrays import Floats, Ints, Mask

SLOW_WORKER: Final = 0
STAGE_IMBALANCE: Final = 1
DATA_IMBALANCE: Final = 2
PAUSE: Final = 3
COMMUNICATION: Final = 4
LAUNCH_DELAY: Final = 5
DATA_LOADING: Final = 6
MIXED_HARDWARE: Final = 7
UNEXPLAINED: Final = 8
COUNT: Final = 9

FIXABLE: Final = range(UNEXPLAINED)
"""Causes that have a fix to replay."""
IN_SECONDS: Final = (PAUSE, COMMUNICATION, LAUNCH_DELAY, DATA_LOADING)
"""Causes whose culprits have an effect in seconds per affected step; for others it is a share of usual
time."""

NO_FLAG: Final = 0
FEW_STEPS: Final = 1
FEW_PEERS: Final = 2
WORKER_OR_STAGE: Final = 3
WORKER_OR_DATA: Final = 4
NO_USUAL_TRANSFER: Final = 5
MANY_SLOW_CELLS: Final = 6
CLOCK_SKEW: Final = 7
MOSTLY_UNEXPLAINED: Final = 8
HIGH_DISCREPANCY: Final = 9
TYPE_OR_STAGE: Final = 10
TYPE_OR_WORKER: Final = 11
"""Flags: reasons to trust a result less than others."""

ALL: Final = -1
"""Stage, dp rank or host of a culprit that is not limited to one."""

ALWAYS: Final = 0
FROM: Final = 1
UNTIL: Final = 2
COMES_AND_GOES: Final = 3
GROWS: Final = 4
"""Courses: in which part of the recorded steps a culprit is slow, or that its slowness grows."""

WORKER: Final = 0
HOST: Final = 1
STAGE: Final = 2
REPLICA: Final = 3
LINK: Final = 4
RACK: Final = 5
"""Reach of a culprit: which workers are slow together."""

BOTH: Final = -1
"""Direction of a culprit that is equally slow in forwards and backwards; else the code of the op type."""


class Culprit(NamedTuple):
    """A worker or a group of workers that caused a slowdown, and the steps in which they were slow.

    stage, dp_rank : position of a worker. dp_rank is ALL for a stage, stage is ALL for a replica, and both
                     are ALL for a host or a rack.
    effect         : by how much its ops took longer, as a share of the usual time (0.3: 30 % longer); for
                     causes IN_SECONDS the time lost in an affected step. [1, or s]
    share_of_steps : share of all steps in which it was slow.
    first_step, last_step : positions of the first and the last step in which it was slow.
    course         : ALWAYS, FROM, UNTIL, COMES_AND_GOES or GROWS.
    direction      : BOTH, or the op type that is slow.
    reach          : WORKER, HOST, STAGE, REPLICA, LINK or RACK.
    host           : number of the host or rack, ALL for other culprits.
    lost_s         : time that all its ops together took longer, mean over steps. [s]
    workers        : (stage, dp_rank) of its workers if there are several.
    """

    stage: int
    dp_rank: int
    effect: float
    share_of_steps: float
    first_step: int
    last_step: int
    course: int = ALWAYS
    direction: int = BOTH
    reach: int = WORKER
    host: int = ALL
    lost_s: float = 0.0
    workers: tuple[tuple[int, int], ...] = ()


class Evidence(NamedTuple):
    """Effect, standard error and sample size on which a cause rests; nan if a number does not exist.

    effect         : size of the largest effect, in the unit of `Culprit.effect`.
    standard_error : of that effect.
    peers          : number of peers with which the culprit was compared.
    samples        : number of ops that were measured.
    indicator      : the paper's indicator of this cause (M_W, M_S, correlation), nan where it has none.
    """

    effect: float
    standard_error: float
    peers: float
    samples: float
    indicator: float


class CauseFound(NamedTuple):
    """One cause of a job's slowdown: what its fix saves, its share of the loss, flag, culprits and evidence.

    time_saved_fraction : (replayed step time - replayed step time with this cause fixed) / T_actual; the best
                          estimate even if flagged. For UNEXPLAINED: the loss against the ideal that no fix
                          recovers.
    attributed_fraction : its share (Shapley value) of the time that all fixes together save, over T_actual; 0
                          for UNEXPLAINED, which nothing fixes.
    is_cause            : whether the fix saves enough and the evidence suffices.
    flag                : reason to trust the result less, or NO_FLAG.
    culprits            : worst first.
    """

    time_saved_fraction: float
    attributed_fraction: float
    is_cause: bool
    flag: int
    culprits: tuple[Culprit, ...]
    evidence: Evidence


class TypeFactors(NamedTuple):
    """How slow GPU types are relative to the fastest. Axes p, k, d, t: stage, direction, dp rank, type.

    measured   : log of the factor, shape (t, k); nan if the log cannot show it.
    error      : its standard error, shape (t,).
    is_slower  : bool, shape (t,); whether the type is slower beyond doubt. Other types have the factor 1.
    of_workers : factor of each worker's type, shape (p, k, 1, 1, 1, d).
    worker_type : int, shape (p, d); -1 if unknown.
    is_confounded : whether some types share no stage, so that a slow type and heavy stages look the same.
    """

    measured: Floats
    error: Floats
    is_slower: Mask
    of_workers: Floats
    worker_type: Ints
    is_confounded: bool

    @property
    def factor(self) -> Floats:
        """Return each GPU type's factor over the fastest; 1 unless slower beyond doubt; shape (t, k)."""
        return np.where(self.is_slower[:, None], np.exp(self.measured), 1.0)


class Diagnosis(NamedTuple):
    """All causes found for one job.

    causes             : one for each code, in the order of the codes.
    shown              : codes of the causes that the log can show; no other cause is ever found.
    all_fixes_fraction : (T_actual - step time with everything fixed) / T_actual.
    types              : factors of the types of GPU; None where fewer than two are known.
    saved_by_step      : shape (2, cause, step); time that fixing each cause alone saves in each step, and
                         time attributed to it, both over the mean T_actual. The means over steps are the
                         causes' fractions. None if unknown.
    """

    causes: tuple[CauseFound, ...]
    shown: frozenset[int]
    all_fixes_fraction: float
    types: TypeFactors | None = None
    saved_by_step: Floats | None = None


def within_the_step(diagnosis: Diagnosis) -> Diagnosis:
    """Scale all savings down if one is more than the recorded step, so that no share of T_actual exceeds 1.

    Savings can exceed the recorded step if its replay is longer. All shares are then divided by one number,
    so that they still add up. Neither a cause alone nor all fixes together with UNEXPLAINED then exceed 1.
    """
    alone = [each.time_saved_fraction for each in diagnosis.causes]
    beside = max(0.0, diagnosis.all_fixes_fraction) + alone[UNEXPLAINED]
    largest = max(1.0, beside, *alone)
    if largest == 1.0:
        return diagnosis
    causes = tuple(
        each._replace(
            time_saved_fraction=each.time_saved_fraction / largest,
            attributed_fraction=each.attributed_fraction / largest,
        )
        for each in diagnosis.causes
    )
    by_step = None if diagnosis.saved_by_step is None else diagnosis.saved_by_step / largest
    return diagnosis._replace(
        causes=causes, all_fixes_fraction=diagnosis.all_fixes_fraction / largest, saved_by_step=by_step
    )
