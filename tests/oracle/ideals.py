"""Compute the four ideals of section 7 of the model with scalar loops."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from statistics import fmean, median

from schemas.op_types import DECLARED

MEAN_IDEAL = {each.name for each in DECLARED if each.is_averaged}
"""Op types whose ideal is a mean under "mean" forms of the ideal; all others have a median (section 5)."""

Kind = tuple[str, int]
"""(op type, stage)."""


def _by_type(op_type: str) -> Callable[[list[float]], float]:
    return fmean if op_type in MEAN_IDEAL else median


def _median(_: str) -> Callable[[list[float]], float]:
    return median


FORMS: dict[str, tuple[bool, Callable[[str], Callable[[list[float]], float]]]] = {
    "pooled-mean-median": (False, _by_type),
    "pooled-median": (False, _median),
    "stage-mean-median": (True, _by_type),
    "stage-median": (True, _median),
}
"""By form of the ideal: whether each stage has its own ideal, and the statistic of an op type's durations."""


def ideals(durations: Iterable[tuple[Kind, float]], form: str) -> dict[Kind, float]:
    """Ideal duration of each op type on each stage; ideals of the whole job are equal on all stages. [s]"""
    within_stage, typical_of = FORMS[form]
    together: dict[Kind, list[float]] = defaultdict(list)
    kinds = set()
    for (op_type, stage), duration_s in durations:
        kinds.add((op_type, stage))
        together[op_type, stage if within_stage else -1].append(duration_s)
    typical = {kind: typical_of(kind[0])(values) for kind, values in together.items()}
    return {(op_type, stage): typical[op_type, stage if within_stage else -1] for op_type, stage in kinds}
