"""Replay the mitigations of one job for given causes."""

from collections.abc import Sequence
from math import inf
from typing import Final, NamedTuple

from udfs.kernel import cause
from udfs.kernel.arrays import Ints
from udfs.kernel.cause import CauseFound
from udfs.kernel.diagnosis.collections_planned import Collections, planned_collections
from udfs.kernel.diagnosis.fixes import Causes, Replays
from udfs.kernel.diagnosis.mitigations import (
    BALANCED,
    Layers,
    layers_between_stages,
    microbatches_over_dp_ranks,
)
from udfs.kernel.diagnosis.other_workers import (
    Exchanged,
    Lightened,
    Removed,
    host_exchanged,
    replica_lightened,
    replica_removed,
)
from udfs.kernel.diagnosis.works import are_told_apart, are_workers_known, hide_pauses

OF_ALL_CAUSES: Final[Causes] = frozenset(cause.FIXABLE)


class Mitigated(NamedTuple):
    """Results of a job's mitigations; None for a mitigation that was not replayed or has no answer.

    as_it_is_s      : mean replayed step time without any mitigation. [s]
    over_dp_ranks_s : the same if whole microbatches are balanced over dp ranks. [s]
    balanced_s      : the same if sequences are balanced over microbatches. [s]
    """

    as_it_is_s: float
    layers: Layers | None = None
    over_dp_ranks_s: float | None = None
    balanced_s: float | None = None
    collections: Collections | None = None
    exchanged: Exchanged | None = None
    removed: Removed | None = None
    lightened: Lightened | None = None


def mitigate(
    replays: Replays, found: Sequence[CauseFound], causes: Causes, layers: Ints | None, memory: float = inf
) -> Mitigated | None:
    """Replay the mitigations of some causes; return None if none of these can be fixed.

    found  : result of the diagnosis for each cause.
    causes : causes whose mitigations are replayed.
    layers : number of layers of each chunk of the model, as in layers_between_stages; None if not known.
    memory : bound on the layers of a stage and on the samples of a microbatch, as a multiple of the most now.
    """
    if not causes & OF_ALL_CAUSES:
        return None
    factors = replays.found.factors
    answers = Mitigated(replays.mean_s())
    if cause.STAGE_IMBALANCE in causes and layers is not None:
        answers = answers._replace(layers=layers_between_stages(replays, layers, memory))
    is_told = factors is None or are_told_apart(factors)
    if cause.DATA_IMBALANCE in causes and is_told and _is_known_data(replays, found):
        balanced_s = replays.mean_s(BALANCED)
        over_dp_ranks_s = microbatches_over_dp_ranks(replays)
        answers = answers._replace(balanced_s=balanced_s, over_dp_ranks_s=over_dp_ranks_s)
    if cause.PAUSE in causes and (factors is None or not hide_pauses(factors)):
        answers = answers._replace(collections=planned_collections(replays))
    if cause.SLOW_WORKER in causes and is_told:
        of_worker, of_stage = found[cause.SLOW_WORKER], found[cause.STAGE_IMBALANCE]
        # With this flag, the cost of a slow worker may be, in part or in whole, the work of its stage.
        flags = [of_worker.flag, *([of_stage.flag] if of_stage.culprits else [])]
        if cause.WORKER_OR_STAGE not in flags:
            answers = answers._replace(exchanged=host_exchanged(replays))
    if causes & {cause.SLOW_WORKER, cause.MIXED_HARDWARE}:
        lightened = replica_lightened(replays, memory)
        answers = answers._replace(removed=replica_removed(replays), lightened=lightened)
    return answers


def _is_known_data(replays: Replays, found: Sequence[CauseFound]) -> bool:
    """Return whether balanced data save time, and data rather than slow workers make microbatches heavy.

    With one stage, the speed of workers is known only if there are enough steps with even microbatches.
    """
    factors, computes = replays.found.factors, replays.found.computes
    if factors is None or computes is None or not factors.data.is_real or hide_pauses(factors):
        return False
    if any(each is not None and each.rows is not None for each in computes.blocks):
        return False  # Microbatches that share a position cannot be exchanged one by one.
    if found[cause.DATA_IMBALANCE].flag == cause.WORKER_OR_DATA:
        return False
    return are_workers_known(factors) and replays.mean_s(BALANCED) < replays.mean_s()
