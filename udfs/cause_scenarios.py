"""Causes of one unit fixed, from its ops and without Spark: the replays that job_causes is made of.

`replay_causes(rows, manifest, ["slow_worker"]).answers[0].gpu_hours_saved`
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from schemas.vocabulary import ALL_CAUSES, JOB_CAUSES, JOB_SLOWDOWN
from udfs.custom_scenario import Answer, Answers
from udfs.errors import NothingToReplayError
from udfs.lost import lost_fractions
from udfs.what_if import SimulationSettings, simulate_job


def replay_causes(
    rank_steps: pa.Table,
    manifest: Mapping[str, object],
    causes: Sequence[str],
    settings: SimulationSettings,
) -> Answers:
    """Replay one unit with each of these causes fixed alone, and with all causes fixed.

    rank_steps, manifest : as replay_scenarios takes them.
    causes   : of CAUSES, those that have a fix.
    settings : those of the night, so that the answers are the rows of job_causes as measured.
    returns  : one answer for each cause, and ALL_CAUSES behind them; none of them counts ops, because a
               fix takes from many ops a part of their time. step_s is T_actual less what is saved.
    raises   : NothingToReplayError where the unit is not replayed, TraceError where its ops contradict
               each other.
    """
    tables = simulate_job(rank_steps, manifest, settings)
    (job,) = tables[JOB_SLOWDOWN].to_pylist()
    rows = tables[JOB_CAUSES].to_pylist()
    if not rows:
        raise NothingToReplayError(f"{job['status']}: {job['status_detail']}")
    saved = {row["cause"]: row["time_saved_fraction"] for row in rows}
    chosen = {cause: saved[cause] for cause in causes} | {ALL_CAUSES: sum(lost_fractions(rows))}
    actual_s, ideal_s, gpu_hours = job["actual_step_s"], job["ideal_step_s"], job["gpu_hours"]
    return Answers(
        steps=job["steps"],
        ops=job["ops"],
        actual_step_s=actual_s,
        simulated_step_s=job["simulated_step_s"],
        ideal_step_s=ideal_s,
        slowdown=job["slowdown"],
        ideal=job["ideal"],
        answers=tuple(
            Answer(
                scenario=name,
                ops=None,
                ops_share=None,
                step_s=actual_s * (1 - fraction),
                slowdown=actual_s * (1 - fraction) / ideal_s,
                time_saved_s=actual_s * fraction,
                time_saved_fraction=fraction,
                gpu_hours_saved=None if gpu_hours is None else gpu_hours * fraction,
            )
            for name, fraction in chosen.items()
        ),
    )
