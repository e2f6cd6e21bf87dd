"""Time saved by mitigations in one unit, by replay; callable without Spark.

`mitigated(rows, manifest, layers=[8, 8, 8, 8]).answers[0].time_saved_fraction`
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from udfs.kernel.diagnosis.diagnose import replays
from udfs.kernel.diagnosis.found import Found, Job
from udfs.kernel.diagnosis.mitigations import (
    BALANCED,
    as_it_is,
    layers_between_stages,
    microbatches_over_dp_ranks,
    planned_collections,
)
from udfs.kernel.graph.graph import Layout
from udfs.simulate.choice import Choice, chosen
from udfs.simulate.gpu_types import worker_types
from udfs.what_if import SimulationSettings, garbage_collection_paused

LAYERS: Final = "layers between stages"
OVER_DP_RANKS: Final = "microbatches over dp ranks"
SEQUENCES: Final = "sequences over microbatches"
COLLECTIONS: Final = "planned garbage collection"


class LayersError(ValueError):
    """Raised for numbers of layers that do not fit the unit; the message says what was wanted."""


@dataclass(frozen=True)
class Mitigation:
    """Plan, assumptions and savings of one mitigation.

    plan                : what to do, in words.
    assumes             : what must hold for that.
    step_s              : recorded step time less what is saved. [s]
    time_saved_fraction : of the recorded step time, as in job_causes; below 0 where it costs more.
    gpu_hours_saved     : gpu_hours of the unit times that; None where they are not known.
    """

    mitigation: str
    plan: str
    assumes: str
    step_s: float
    time_saved_fraction: float
    gpu_hours_saved: float | None


@dataclass(frozen=True)
class Mitigations:
    """Mitigations of a unit, best first, and the reasons why others have no answer.

    actual_step_s : recorded step time, mean over the steps. [s]
    """

    steps: int
    actual_step_s: float
    answers: Sequence[Mitigation]
    without: Mapping[str, str]


_Saved = tuple[str, str, str, float]
"""Mitigation, plan, what it assumes, and its mean replayed step time."""


def mitigated(
    rank_steps: pa.Table,
    manifest: Mapping[str, object],
    layers: Sequence[int] | None = None,
    settings: SimulationSettings | None = None,
) -> Mitigations:
    """Replay each mitigation of one unit, with slow workers and transfers left as they are.

    rank_steps, manifest, settings : as custom_scenario.replay_scenarios takes them; it raises what that does.
    layers : of the model: one number, that are spread evenly; or as many as it has chunks, in the model's
             order. None: not known, so that none are moved.
    raises : LayersError for layers that do not fit.
    """
    how = settings or SimulationSettings()
    with garbage_collection_paused():
        choice = chosen(rank_steps, manifest, how)
        by_chunk = None if layers is None else by_chunks(layers, choice.layout)
        found = _found(choice, manifest, how)
        replayed_s = as_it_is(found)
        saved = [*_layers(found, by_chunk), *_data(found), *_pauses(found)]
    actual_s, gpu_hours = found.job.actual_s, manifest.get("gpu_hours")
    answers = []
    for mitigation, plan, assumes, step_s in saved:
        fraction = (replayed_s - step_s) / actual_s
        hours = gpu_hours * fraction if isinstance(gpu_hours, int | float) else None
        answers.append(Mitigation(mitigation, plan, assumes, actual_s * (1 - fraction), fraction, hours))
    named = {each.mitigation for each in answers}
    without = {name: why for name, why in _without(choice.layout, layers).items() if name not in named}
    best_first = sorted(answers, key=lambda each: -each.time_saved_fraction)
    return Mitigations(len(choice.rows.steps), actual_s, best_first, without)


def by_chunks(layers: Sequence[int], layout: Layout) -> list[int]:
    """Layers of each model chunk. Raises LayersError if the given numbers do not fit."""
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


def _found(choice: Choice, manifest: Mapping[str, object], how: SimulationSettings) -> Found:
    """Run the diagnosis of a unit up to the point before any cause is fixed."""
    rows = choice.rows
    recorded = choice.read(how.ops_together, diagnosed=True)
    types = worker_types(rows, manifest)
    job = Job(
        choice.layout,
        rows.worker_host,
        actual_s=float(recorded.actual_s.mean()),
        ideal_s=0.0,
        indicators={},
        worker_type=types.number if types is not None and types.is_mixed else None,
    )
    blocks = [
        block.diagnosed._replace(steps=block.steps)
        for block in recorded.blocks
        if block.diagnosed is not None
    ]
    return Found.of(job, blocks)


def _layers(found: Found, by_chunk: Sequence[int] | None) -> Iterator[_Saved]:
    split = None if by_chunk is None else layers_between_stages(found, np.array(by_chunk))
    if split is not None:
        before, after = (", ".join(map(str, each.tolist())) for each in (split.before, split.after))
        plan = "as they are" if before == after else f"{after} instead of {before}"
        yield LAYERS, plan, "layers are alike; loss and embedding stay where they are", split.step_s


def _data(found: Found) -> Iterator[_Saved]:
    step_s = microbatches_over_dp_ranks(found)
    if step_s is not None:
        plan = "give each step's microbatches, heaviest first, to the rank with the least work; all as many"
        yield OVER_DP_RANKS, plan, "their work is known before the step, as by lengths of sequences", step_s
    if found.factors is not None and found.factors.data.is_real:
        plan = "pack sequences so that all microbatches of a step, on all dp ranks, have alike much work"
        balanced_s = replays(found)([BALANCED])[BALANCED]
        yield SEQUENCES, plan, "sequences are short enough for that, and fit into memory", balanced_s


def _pauses(found: Found) -> Iterator[_Saved]:
    planned = planned_collections(found)
    if planned is not None:
        plan = (
            f"collect on all workers after every {planned.every_steps} steps, {planned.pause_s:.3g} s; "
            + ("never pays" if np.isinf(planned.pays_from) else f"pays from every {planned.pays_from:.3g} on")
        )
        assumes = "pauses are collections, and as long behind the optimizer, where the longest counts"
        yield COLLECTIONS, plan, assumes, planned.step_s


def _without(layout: Layout, layers: Sequence[int] | None) -> dict[str, str]:
    """Reasons why each mitigation may have no answer, by mitigation."""
    computes = "steps, stages or chunks differ in their numbers of computes"
    no_layers = "how many layers the model has is not known (--layers)" if layers is None else computes
    even = "no microbatch is known to be heavier than others"
    return {
        LAYERS: "there is no pipeline" if layout.pp_size == 1 else no_layers,
        OVER_DP_RANKS: "there is one dp rank" if layout.dp_size == 1 else even,
        SEQUENCES: even,
        COLLECTIONS: "no worker pauses",
    }
