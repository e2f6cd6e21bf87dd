"""Compare the power swing and phase of generated jobs with dense samples and with known shifts.

`python -m tests.evaluation.power --seed S` prints the tables. Seeds 0 to 99,999 may be used for tuning; seeds
from 1,000,000 on are kept for evaluation.
"""

import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from jobs.runtime.arguments import Arguments, command, not_negative, option, positive
from jobs.synthetic.job import recorded_job
from jobs.synthetic.sample_job import sample_job
from jobs.synthetic.simulation import JobPlan, Simulation, child_rng
from schemas.vocabulary import JOB_POWER, POWER_IN_PHASE, Exit
from tests.evaluation.judge import Row
from tests.evaluation.report import FORMATS, Section, rendered
from udfs.errors import TraceError
from udfs.power.days import READ, power_tables
from udfs.what_if import SimulationSettings, simulate_job

BINS: Final = 128
SAMPLES: Final = 128
"""Number of moments per bin of a step at which computing workers are counted for the truth."""
COMPUTING: Final = ("forward-compute", "backward-compute", "optimizer")

RELATIONS: Final = ("one beat", "nearly one beat", "one beat, apart", "another beat")
"""How the period and the phase of the second of two jobs relate to the first; the first two relations are in
phase."""
SLOWER_THAN_STEPS: Final = 1.05
"""Time between starts of steps, divided by the longest step, so that a step ends before the next one
begins."""

Floats = NDArray[np.float64]


class Truth(NamedTuple):
    """True share of computing workers in a step, its dominant component, and true step times.

    share     : share of workers that compute, in each bin of the step
    harmonic  : number of periods of the dominant component in a step
    peak_s    : time from the step's zero to the first peak of that component [s]
    """

    share: Floats
    step_s: float
    longest_s: float
    harmonic: int
    peak_s: float


def truth(simulation: Simulation) -> Truth:
    """Return the true figures, from counts of the workers that compute at sampled moments, by true clocks."""
    timeline, place = simulation.timeline(), simulation.place
    rows = place.rows(*COMPUTING)
    began_us = timeline.start_us[place.recorded].min(axis=(0, 2))
    step_us = simulation.step_us(timeline)
    moments = (np.arange(BINS * SAMPLES) + 0.5) / (BINS * SAMPLES)
    total = np.zeros(len(moments))
    for step, (began, length) in enumerate(zip(began_us, step_us, strict=True)):
        at = began + moments * length
        for times, sign in ((timeline.start_us, 1), (timeline.end_us, -1)):
            total += sign * np.searchsorted(np.sort(times[rows, step].ravel()), at, side="right")
    sampled = total / (len(step_us) * len(simulation.plan.shape.cells))
    sizes = np.fft.rfft(sampled)[1 : BINS // 2] / len(sampled)
    harmonic = int(np.abs(sizes).argmax()) + 1
    turned = -np.angle(sizes[harmonic - 1]) / (2 * np.pi) % 1.0
    step_s = float(step_us.mean()) * 1e-6
    return Truth(
        sampled.reshape(BINS, SAMPLES).mean(axis=1),
        step_s,
        float(step_us.max()) * 1e-6,
        harmonic,
        turned / harmonic * step_s + float(began_us.mean()) * 1e-6,
    )


def power_row(plan: JobPlan) -> Row | None:
    """Return the job's row of job_power; None if it has no such row."""
    job = recorded_job(Simulation(plan))
    try:
        rows = simulate_job(job.rank_steps, job.manifest, SimulationSettings(diagnosed=False))[JOB_POWER]
    except TraceError:
        return None
    return dict(rows.to_pylist()[0]) if rows.num_rows else None


def judge(seed: int, most_ops: int = 15_000) -> Row | None:
    """Draw a job, and compare its reported power swing with the true one; None without a job_power row."""
    plan = sample_job(seed, most_ops=most_ops)
    found = power_row(plan)
    if found is None:
        return None
    true = truth(Simulation(plan))
    error = np.abs(np.array(found["computing_share"]) - true.share)
    period_s = true.step_s / true.harmonic
    return {
        "seed": seed,
        "records": "no optimizer" if "optimizer" in plan.shape.absent else "all that computes",
        "share_error": float(error.mean()),
        "share_error_worst": float(error.max()),
        "swing_error": abs(found["swing_share"] - float(np.ptp(true.share))),
        "harmonic_right": found["dominant_harmonic"] == true.harmonic,
        "period_error": abs((found["dominant_period_s"] or np.inf) / period_s - 1),
    }


def judge_pair(seed: int, most_ops: int = 5_000) -> Row | None:
    """Draw two jobs of one plan with different noise, and judge whether they are found to be in phase.

    None if either job has no row of job_power, if their dominant components differ, or if they have too
    few steps.
    """
    plan = sample_job(seed, most_ops=most_ops)
    rng = child_rng(seed, "power")
    relation = RELATIONS[int(rng.integers(len(RELATIONS)))]
    plans = [plan, replace(plan, seed=seed + 10**9)]
    true = [truth(Simulation(each)) for each in plans]
    if len({each.harmonic for each in true}) > 1 or plan.shape.steps < 4:
        return None
    harmonic = true[0].harmonic
    beat_s = SLOWER_THAN_STEPS * max(each.longest_s for each in true)
    numbers = plan.step_numbers
    steps = numbers[-1] - numbers[0]
    later = rng.uniform(3 / 16, 5 / 16) if relation == "one beat, apart" else rng.uniform(-1 / 16, 1 / 16)
    drift = {"nearly one beat": rng.uniform(0.05, 0.12), "another beat": rng.uniform(0.6, 3.0)}.get(
        relation, 0.0
    )
    other_beat_s = beat_s * (1 + drift / (harmonic * steps))
    # In the middle of the record, the other job's peak comes `later` periods after the first job's peak.
    shift_s = (
        later * beat_s / harmonic
        + (true[0].peak_s - true[1].peak_s)
        - (other_beat_s - beat_s) * steps / 2
    )  # fmt: skip
    identities = [
        replace(plan.identity, job_id="a", beat_s=beat_s),
        replace(
            plan.identity,
            job_id="b",
            beat_s=other_beat_s,
            first_t0_us=plan.identity.first_t0_us + round(shift_s * 1e6),
        ),
    ]
    rows = [power_row(replace(each, identity=who)) for each, who in zip(plans, identities, strict=True)]
    found = _pair([row for row in rows if row is not None], plan.shape.world_size)
    if found is None:
        return None
    return {
        "seed": seed,
        "relation": relation,
        "is_in_phase": relation in RELATIONS[:2],
        "has_phase": all(row is not None and row["peak_us"] is not None for row in rows),
        "found": found.num_rows > 0,
        "peak_error": _peak_error(rows[0], true[0], plan, beat_s),
        "phase_error": abs(found["phase_difference"][0].as_py() - later) if found.num_rows else np.nan,
        "drift_error": abs(found["drift"][0].as_py() - drift) if found.num_rows else np.nan,
    }


def _peak_error(row: Row | None, true: Truth, plan: JobPlan, beat_s: float) -> float:
    """Error of the reported time of a job's power peak, in periods of the dominant component."""
    if row is None or row["peak_us"] is None:
        return np.nan
    first, last = plan.step_numbers[0], plan.step_numbers[-1]
    wanted_s = plan.identity.first_t0_us * 1e-6 + ((first + last) // 2 - first) * beat_s + true.peak_s
    apart = (row["peak_us"] * 1e-6 - wanted_s) * true.harmonic / true.step_s
    return float(abs(apart - np.rint(apart)))


def _pair(rows: list[Row], world_size: int) -> "pa.Table | None":
    """Return the rows of power_in_phase for two units; None if either has no row of job_power."""
    if len(rows) < 2:
        return None
    day = datetime.fromtimestamp(rows[0]["first_us"] * 1e-6, UTC).date()
    stated = dict.fromkeys(READ["jobs"]) | {"world_size": world_size}
    units: list[dict[str, Any]] = [
        {name: row[name] for name in READ[JOB_POWER]}
        | stated
        | {"log_date": day, "job_id": job_id, "run_id": "r0"}
        for job_id, row in zip("ab", rows, strict=True)
    ]
    return power_tables(pa.Table.from_pylist(units), {})[POWER_IN_PHASE]


def by_record(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row over all jobs and one per choice of recorded ops; shares are percentages of workers."""
    parts = {"all": rows, **dict(list(rows.groupby("records")))}
    return pd.DataFrame({"jobs that record": name, **_errors(part)} for name, part in parts.items())


def _errors(rows: pd.DataFrame) -> Mapping[str, float]:
    return {
        "jobs": len(rows),
        "share, mean error [%]": 100 * float(rows.share_error.mean()),
        "share, p95 of jobs [%]": 100 * float(rows.share_error.quantile(0.95)),
        "worst bin, median [%]": 100 * float(rows.share_error_worst.median()),
        "swing, mean error [%]": 100 * float(rows.swing_error.mean()),
        "swing, p95 [%]": 100 * float(rows.swing_error.quantile(0.95)),
        "dominant right [%]": 100 * float(rows.harmonic_right.mean()),
        "period, median error [%]": 100 * float(rows.period_error.median()),
        "period, p95 [%]": 100 * float(rows.period_error.quantile(0.95)),
    }


def by_relation(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each relation between the periods and phases of two jobs."""
    columns = {
        "pairs": ("seed", "size"),
        "with a phase": ("has_phase", "sum"),
        "found in phase": ("found", "sum"),
        "peak, worst error [periods]": ("peak_error", "max"),
        "phase, worst error [periods]": ("phase_error", "max"),
        "drift, worst error [periods]": ("drift_error", "max"),
    }
    return pairs.groupby(["relation", "is_in_phase"], as_index=False).agg(**columns)


@command(
    "tests.evaluation.power",
    option("--jobs N", "jobs, and pairs of jobs", positive, default=200),
    option("--seed S", "seed of the first job", not_negative, required=True),
    option("--most-ops N", "ops of a job, about", positive, default=15_000),
    option("--list-worst N", "list the N largest errors", not_negative, default=5),
    option("--format FORMAT", "how to print it", choices=FORMATS, default=FORMATS[0]),
)
def main(args: Arguments) -> int:
    """Compare the reported share, swing, period and phase of power with the truth of generated jobs."""
    seeds = range(args.seed, args.seed + args.jobs)
    jobs = pd.DataFrame(row for row in (judge(seed, args.most_ops) for seed in seeds) if row is not None)
    pairs = pd.DataFrame(row for row in map(judge_pair, seeds) if row is not None)
    sections = [
        Section("Share, swing and period", "", by_record(jobs)),
        Section("Pairs of jobs", "", by_relation(pairs)),
        Section("Worst swings", "", jobs.sort_values("swing_error", ascending=False).head(args.list_worst)),
    ]
    heading = f"{len(jobs)} generated jobs and {len(pairs)} pairs, of seeds {seeds[0]} to {seeds[-1]}."
    sys.stdout.write(rendered(heading, sections, args.format))
    return Exit.DONE


if __name__ == "__main__":
    sys.exit(main())
