"""Evaluate predicted savings by faster roles, by reruns of jobs of several roles ("wholes").

`python -m tests.evaluation.wholes --jobs N --seed S` prints the tables. Seeds 0 to 99,999 may be used for
tuning; seeds from 1,000,000 on are kept for evaluation.
"""

import sys
from datetime import date
from itertools import product
from typing import Any, Final

import pandas as pd
import pyarrow as pa

from jobs.runtime.arguments import Arguments, command, not_negative, option, positive
from jobs.synthetic.job import GeneratedJob
from jobs.synthetic.whole import WholeSimulation
from schemas.tables import TABLES
from schemas.vocabulary import JOB_CAUSES, ROLE_EFFECT, ROLE_STEP, Exit
from tests.evaluation.judge import Row
from tests.evaluation.report import FORMATS, Section, rendered
from tests.support.wholes import sample_whole, saved_fraction
from udfs.errors import TraceError
from udfs.roles.role_tables import role_tables
from udfs.what_if import simulate_job

DAY: Final = date(2026, 1, 5)
SCENARIOS: Final = {"if_fixed": False, "if_ideal": False, "if_twice_as_fast": True}
"""By scenario: whether its truth is a rerun in which the role's steps take half their time; else it is a
rerun without the role's causes."""


def judge(seed: int) -> list[Row]:
    """Draw a job of several roles; return savings for each role, or no rows if a trace is refused."""
    whole = sample_whole(seed)
    try:
        effects = answered(whole)
    except TraceError:
        return []
    found = []
    for effect in effects:
        role = effect["role"]
        truth = {half: saved_fraction(whole, role, is_half=half) for half in (False, True)}
        row: Row = {"seed": seed, "role": role, "roles": len(effects), "wholes": _kind(whole)}
        for name, half in SCENARIOS.items():
            said = effect[f"saved_fraction_{name}"]
            row |= {f"said_{name}": said, f"true_{name}": truth[half]}
        found.append(row)
    return found


def _kind(whole: WholeSimulation) -> str:
    """Return whether the first roles run ahead, or wait for the last roles of the iteration before."""
    runs_ahead = not any(run.waits_for_before for run in whole.runs)
    return "first roles run ahead" if runs_ahead else "one iteration after the other"


def answered(whole: WholeSimulation) -> list[dict[str, Any]]:
    """Return the rows of role_effect that a night would compute; raises TraceError for a refused job."""
    steps: list[Row] = []
    runs: list[Row] = []
    for job in whole.recorded():
        of_job, run = _simulated(job)
        steps += of_job
        runs.append(run)
    tables = role_tables(
        pa.Table.from_pylist(steps, TABLES[ROLE_STEP].arrow_schema), pa.Table.from_pylist(runs)
    )
    found: list[dict[str, Any]] = tables[ROLE_EFFECT].to_pylist()
    return found


def _simulated(job: GeneratedJob) -> tuple[list[Row], Row]:
    """Simulate a job; return its rows of role_step, and one row that describes its run."""
    key = {"log_date": DAY, **{name: job.manifest[name] for name in ("job_id", "run_id")}}
    tables = simulate_job(job.rank_steps, job.manifest | {"log_date": DAY})
    lost = [row["lost_fraction"] for row in tables[JOB_CAUSES].to_pylist()]
    of_run = {name: job.manifest[name] for name in ("part_of", "role", "gpu_hours")}
    run = key | of_run | {"lost_fraction": None if not lost or None in lost else sum(lost)}
    return [key | row for row in tables[ROLE_STEP].to_pylist()], run


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row per kind of job and scenario: number of roles, true saving, errors of predictions."""
    found = []
    for (kind, some), name in product(rows.groupby("wholes"), SCENARIOS):
        said, true = some[f"said_{name}"].astype(float), some[f"true_{name}"]
        error = 100 * (said - true).dropna()
        found.append(
            {
                "wholes": kind,
                "scenario": name,
                "roles": len(error),
                "saved in truth, mean [%]": 100 * float(true[error.index].mean()),
                "error, mean [%]": float(error.mean()),
                "MAE [%]": float(error.abs().mean()),
                "p95 [%]": float(error.abs().quantile(0.95)),
                "worst [%]": float(error.abs().max()),
            }
        )
    return pd.DataFrame(found)


def right_role(rows: pd.DataFrame) -> float:
    """Percentage of jobs in which the role named as best to speed up truly saves most."""
    by_seed = rows.groupby("seed")
    said = rows.loc[by_seed["said_if_twice_as_fast"].idxmax().to_numpy(), "role"].to_numpy()
    true = rows.loc[by_seed["true_if_twice_as_fast"].idxmax().to_numpy(), "role"].to_numpy()
    return 100 * float((said == true).mean())


@command(
    "tests.evaluation.wholes",
    option("--jobs N", "wholes", positive, default=200),
    option("--seed S", "seed of the first whole", not_negative, required=True),
    option("--list-worst N", "list the N largest errors", not_negative, default=5),
    option("--format FORMAT", "how to print it", choices=FORMATS, default=FORMATS[0]),
)
def main(args: Arguments) -> int:
    """Evaluate the predicted savings of faster roles."""
    judged: list[Row] = []
    seed, wholes = args.seed, 0
    while wholes < args.jobs:
        found = judge(seed)
        judged += found
        wholes += bool(found)
        seed += 1
    rows = pd.DataFrame(judged)
    error = (rows.said_if_fixed.astype(float) - rows.true_if_fixed).abs()
    sections = [
        Section("What a faster role returns", "", summary(rows)),
        Section("Worst errors if fixed", "", rows.loc[error.nlargest(args.list_worst).index]),
    ]
    heading = (
        f"{wholes} generated wholes of {len(rows)} roles, of seeds {args.seed} to {seed - 1}. In "
        f"{right_role(rows):.1f} % the role whose halved time saves most is the one named."
    )
    sys.stdout.write(rendered(heading, sections, args.format))
    return Exit.DONE


if __name__ == "__main__":
    sys.exit(main())
