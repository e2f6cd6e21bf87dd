"""Time that mitigations of one unit would save, by replay, without Spark.

`mitigated(rows, manifest, layers=[8, 8, 8, 8]).answers[0].time_saved_fraction`
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from math import inf

import pyarrow as pa

from schemas import mitigations as named
from udfs.kernel.diagnosis.mitigate import OF_ALL_CAUSES
from udfs.kernel.diagnosis.other_workers import LEAST_REPLICAS
from udfs.kernel.graph.graph import Layout
from udfs.simulate.checkpoints import LEAST_FAILURES
from udfs.simulate.choice import chosen
from udfs.simulate.mitigation_rows import by_chunks, mitigation_rows, stated_layers
from udfs.what_if import SimulationSettings, analysed, garbage_collection_paused


@dataclass(frozen=True)
class Mitigation:
    """Plan, assumptions and savings of a mitigation, as in a row of the table mitigations.

    plan                : what to do, in words.
    assumes             : what must hold for the plan to save this time.
    step_s              : recorded step time minus the time saved. [s]
    time_saved_fraction : share of the time for the same number of samples; below 0 if the plan costs time.
    gpu_hours_saved     : gpu_hours of the unit times time_saved_fraction; None if gpu_hours is unknown.
    """

    mitigation: str
    plan: str
    assumes: str
    step_s: float
    time_saved_fraction: float
    gpu_hours_saved: float | None


@dataclass(frozen=True)
class Mitigations:
    """Mitigations of a unit, the best first, and the reasons why other mitigations have no answer.

    actual_step_s : recorded step time, mean over the steps. [s]
    without       : the reason, by name of the mitigation.
    """

    steps: int
    actual_step_s: float
    answers: Sequence[Mitigation]
    without: Mapping[str, str]


def mitigated(
    rank_steps: pa.Table,
    manifest: Mapping[str, object],
    layers: Sequence[int] | None = None,
    settings: SimulationSettings | None = None,
    memory: float = inf,
) -> Mitigations:
    """Replay all mitigations of one unit; a night replays only those of the causes that it finds.

    rank_steps, manifest, settings : as custom_scenario.replay_scenarios takes them.
    layers : number of layers of each chunk, in the model's order; or one number for the whole model, which is
             spread evenly. None: the manifest's label; without a label, no layers are moved.
    memory : no stage gets more layers, and no microbatch more samples, than this multiple of the most that
             any has now.
    raises : LayersError for layers that do not fit, and the errors of replay_scenarios.
    """
    how = settings or SimulationSettings()
    with garbage_collection_paused():
        choice = chosen(rank_steps, manifest, how)
        by_chunk = (
            stated_layers(manifest, choice.layout) if layers is None else by_chunks(layers, choice.layout)
        )
        found = analysed(choice, how, manifest, layers=by_chunk, mitigated=OF_ALL_CAUSES, memory=memory)
    gpu_hours = manifest.get("gpu_hours")
    known = float(gpu_hours) if isinstance(gpu_hours, int | float) else None
    names = [field.name for field in fields(Mitigation)]
    answers = [
        Mitigation(**{name: row[name] for name in names})
        for row in mitigation_rows(found, choice.rows, manifest, known)
    ]
    answered = {each.mitigation for each in answers}
    reasons = _without(choice.layout, by_chunk)
    without = {name: why for name, why in reasons.items() if name not in answered}
    return Mitigations(len(choice.rows.steps), float(found.recorded.actual_s.mean()), answers, without)


def _without(layout: Layout, layers: Sequence[int] | None) -> dict[str, str]:
    """Return, by mitigation, the reason to state if the mitigation has no answer."""
    computes = "steps, stages or chunks differ in their numbers of computes, or a chunk hardly takes time"
    no_layers = "how many layers the model has is not known (--layers)" if layers is None else computes
    none_slow = "no worker is slow"
    even = (
        "with one stage, heavy data look like a slower GPU, if no steps are even"
        if layout.pp_size == 1
        else "no microbatch is known to be heavier by its data, not by a slow worker, pauses or chance"
    )
    one = "there is one dp rank"
    return {
        named.LAYERS: "there is no pipeline" if layout.pp_size == 1 else no_layers,
        named.OVER_DP_RANKS: one
        if layout.dp_size == 1
        else f"each has too few microbatches, or the step time depends on which are heavier, or {even}",
        named.SEQUENCES: even,
        named.COLLECTIONS: "there is one worker, or none is known to pause, not to be slow or have heavy "
        "data",
        named.HOST_EXCHANGED: "no worker on one known host is slow, rather than its stage or data heavier",
        named.REPLICA_REMOVED: none_slow
        if layout.dp_size >= LEAST_REPLICAS
        else f"there are fewer than {LEAST_REPLICAS} dp ranks",
        named.LIGHTER_REPLICA: one if layout.dp_size == 1 else f"{none_slow}, or another replica is as slow",
        named.OVERLAP: "too little of any communication lengthens steps, or it is transfers that run beside "
        "computes already (the next stage waits for their data), or several of one call",
        named.CHECKPOINTS: f"its events show no interval, fewer than {LEAST_FAILURES} failures, "
        "or a loop of crashes",
    }
