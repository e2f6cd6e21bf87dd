"""Rows of the table mitigations, for the nightly run and for the command."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from schemas import mitigations as named
from schemas.vocabulary import CAUSES
from udfs.kernel.cause import MIXED_HARDWARE, SLOW_WORKER
from udfs.kernel.diagnosis.mitigate import Mitigated
from udfs.kernel.graph.graph import Layout
from udfs.kernel.op_type import TRANSFERS
from udfs.kernel.replay.exposed import ALL
from udfs.kernel.replay.scenario_rows import TYPE_GROUP
from udfs.kernel.what_if import WhatIf
from udfs.op_lists import GROUPS
from udfs.simulate.checkpoints import best_interval
from udfs.simulate.rank_rows import ReplayedRows

ROUNDING: Final = 1e-12
"""Savings below this share are rounding errors, and are stored as 0."""
MOST_OF_HOST: Final = 8
"""Most GPUs of a host; a worker with more ranks is on several hosts."""
LABEL: Final = "layers"
"""Label of the manifest with the number of layers of the model, or of each chunk."""

Row = dict[str, Any]


class LayersError(ValueError):
    """Raised if given numbers of layers do not fit the unit; the message says which numbers would."""


class _Saved(NamedTuple):
    """A mitigation and its savings.

    saved_s : time saved in the mean step. [s]
    gpu_s   : saved GPU time over the number of GPUs, if it differs from saved_s. [s]
    """

    mitigation: str
    plan: str
    assumes: str
    saved_s: float
    gpu_s: float | None = None
    host: str | None = None


def parsed_layers(text: str) -> tuple[int, ...]:
    """Parse one number of layers, or one per model chunk; raises ValueError."""
    found = tuple(int(each) if each.isdecimal() else 0 for each in text.replace(" ", "").split(","))
    if min(found) < 1:
        raise ValueError(f"{text!r} is not a number of layers such as 32, or 9,8,8,7 by chunk of the model")
    return found


def by_chunks(layers: Sequence[int], layout: Layout) -> list[int]:
    """Return the layers of each model chunk; raise LayersError if the given numbers do not fit."""
    chunks = layout.pp_size * layout.vpp_size
    if len(layers) == 1 and layers[0] % chunks == 0:
        layers = [layers[0] // chunks] * chunks
    if len(layers) != chunks or min(layers) < 1:
        raise LayersError(
            f"{','.join(map(str, layers))} layers do not fit {chunks} chunks of the model "
            f"({layout.pp_size} stages x {layout.vpp_size}): give a multiple of {chunks}, or {chunks} "
            "numbers from 1 on"
        )
    return list(layers)


def stated_layers(facts: Mapping[str, Any], layout: Layout) -> list[int] | None:
    """Return the layers that the manifest's label states, or None if the label is missing or wrong."""
    label = dict(facts.get("labels") or {}).get(LABEL)
    try:
        return None if label is None else by_chunks(parsed_layers(str(label)), layout)
    except ValueError:
        return None


def mitigation_rows(
    found: WhatIf, rows: ReplayedRows, facts: Mapping[str, Any], gpu_hours: float | None
) -> list[Row]:
    """Return rows for replayed mitigations, overlap and checkpoint intervals, the largest saving first."""
    actual_s = float(found.recorded.actual_s.mean())
    replayed_s = actual_s if found.mitigated is None else found.mitigated.as_it_is_s
    # If the replay is longer than the record, savings are shares of the replay, so that none exceeds 1.
    whole_s = max(actual_s, replayed_s)
    ranks = int(facts.get("tp_size") or 1) * int(facts.get("cp_size") or 1)
    answers: list[_Saved] = []
    if found.mitigated is not None:
        answers += [*_work(found.mitigated), *_workers(found.mitigated, rows, ranks)]
    answers += [*_overlapped(found, actual_s), *_checkpoints(facts.get("events"), whole_s)]
    made = []
    for each in answers:
        of_gpus_s = each.saved_s if each.gpu_s is None else each.gpu_s
        shares = (part_s / whole_s for part_s in (each.saved_s, of_gpus_s))
        fraction, of_gpus = (0.0 if abs(share) < ROUNDING else share for share in shares)
        cause = named.CAUSE_OF[each.mitigation]
        if each.mitigation in (named.REPLICA_REMOVED, named.LIGHTER_REPLICA) and found.diagnosis is not None:
            holds = [found.diagnosis.causes[code].is_cause for code in (MIXED_HARDWARE, SLOW_WORKER)]
            # A slow replica without slow workers is of another GPU type.
            cause = CAUSES[MIXED_HARDWARE] if holds == [True, False] else cause
        made.append(
            {
                "mitigation": each.mitigation,
                "cause": cause,
                "host": each.host,
                "plan": each.plan,
                "assumes": each.assumes,
                "step_s": actual_s * (1 - fraction),
                "time_saved_fraction": fraction,
                "gpu_hours_saved": None if gpu_hours is None else gpu_hours * of_gpus,
            }
        )
    return sorted(made, key=lambda row: -row["time_saved_fraction"])


def _work(mitigated: Mitigated) -> Iterator[_Saved]:
    """Yield the mitigations that move work or pauses."""
    now_s, split, planned = mitigated.as_it_is_s, mitigated.layers, mitigated.collections
    if split is not None:
        before, after = (", ".join(map(str, each.tolist())) for each in (split.before, split.after))
        plan = "as they are" if before == after else f"{after} instead of {before}"
        assumes = "layers are alike; loss and embedding stay where they are"
        yield _Saved(named.LAYERS, plan, assumes, now_s - split.step_s)
    if mitigated.over_dp_ranks_s is not None:
        plan = "give each step's microbatches, heaviest first, to the rank with the least work; all as many"
        assumes = "their work is known before the step, for example from sequence lengths"
        yield _Saved(named.OVER_DP_RANKS, plan, assumes, now_s - mitigated.over_dp_ranks_s)
    if mitigated.balanced_s is not None:
        plan = "pack sequences so that all microbatches of a step, on all dp ranks, have about equal work"
        assumes = "sequences are short enough to be packed so, and fit into memory"
        yield _Saved(named.SEQUENCES, plan, assumes, now_s - mitigated.balanced_s)
    if planned is not None:
        plan = (
            f"collect on all workers together after every {planned.every_steps} steps "
            f"({planned.pause_s:.3g} s each time); "
            + ("never pays" if np.isinf(planned.pays_from) else f"pays from {planned.pays_from:.3g} steps on")
        )
        assumes = "pauses are collections, and as long behind the optimizer, where the longest counts"
        yield _Saved(named.COLLECTIONS, plan, assumes, now_s - planned.step_s)


def _workers(mitigated: Mitigated, rows: ReplayedRows, ranks: int) -> Iterator[_Saved]:
    """Yield the mitigations of slow workers. ranks : number of ranks of a worker."""
    now_s = mitigated.as_it_is_s
    exchanged, removed, lighter = mitigated.exchanged, mitigated.removed, mitigated.lightened
    # For a worker on several hosts the log names only one, which need not be the slow one.
    if exchanged is not None and ranks <= MOST_OF_HOST:
        worker = int(np.flatnonzero(rows.worker_host.ravel() == exchanged.host)[0])
        host = rows.hosts[worker]
        assumes = "the new host is as fast as its peers; the restart is not counted"
        yield _Saved(
            named.HOST_EXCHANGED,
            f"replace {host} by a healthy host",
            assumes,
            now_s - exchanged.step_s,
            host=host,
        )
    if removed is not None:
        left = f"{removed.replicas - 1} replicas instead of {removed.replicas}"
        plan = f"continue without dp rank {removed.dp_rank}: {left}"
        assumes = (
            f"a step then takes {removed.step_s:.4g} s, with fewer samples; the saving is for the same "
            "number of samples. Collectives take equally long; the freed GPUs serve other jobs"
        )
        saved_s, of_gpus_s = now_s - removed.same_work_s, now_s - removed.step_s
        yield _Saved(named.REPLICA_REMOVED, plan, assumes, saved_s, of_gpus_s)
    if lighter is not None and round(lighter.weight, 3) < 1.0:
        plan = (
            f"give dp rank {lighter.dp_rank} {lighter.weight:.1%} of a usual microbatch's samples, "
            f"all others {lighter.others:.1%}"
        )
        assumes = "computes are proportional to their samples; the others have enough memory"
        yield _Saved(named.LIGHTER_REPLICA, plan, assumes, now_s - lighter.step_s)


def _overlapped(found: WhatIf, actual_s: float) -> Iterator[_Saved]:
    """Yield the mitigation that runs one op type beside computes, for the type with the largest saving.

    All pipeline transfers are left out if a call waits for several of them, because it is unknown which takes
    long. Transfers that block no worker are left out, because they run beside computes already.
    """
    held = () if found.has_calls else found.recorded.blocking.chosen.types
    without = {ALL, *(TYPE_GROUP[each] for each in TRANSFERS)} - {TYPE_GROUP[each] for each in held}
    of_types = [each for each in found.exposed if each.scenario[0] not in without and each.scenario[1] == ALL]
    best = max(of_types, key=lambda each: each.saved_s, default=None)
    if best is not None and best.saved_s >= named.LEAST_OVERLAP * actual_s:
        name = GROUPS[best.scenario[0]]
        plan = f"run {name} beside computes, which now wait {best.exposed_s:.3g} s of each step for it"
        assumes = "it overlaps perfectly, and slows no compute beside it"
        yield _Saved(named.OVERLAP, plan, assumes, best.saved_s)


def _checkpoints(events: object, whole_s: float) -> Iterator[_Saved]:
    found = best_interval(events) if isinstance(events, Sequence) and events else None
    if found is not None:
        plan = f"save after {found.best_s:.3g} s of work instead of {found.now_s:.3g} s"
        assumes = (
            f"failures come at random, as often as the {found.failures} recorded: one in "
            f"{found.between_s:.3g} s of work; a checkpoint stops the work for {found.stall_s:.3g} s"
        )
        yield _Saved(named.CHECKPOINTS, plan, assumes, whole_s * found.saved_fraction)
