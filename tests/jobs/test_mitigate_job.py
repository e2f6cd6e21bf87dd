"""Test the command mitigate: on a folder, on a unit of the warehouse, and its errors."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from jobs.landing.one_run import runs_in
from jobs.mitigate_job import main
from jobs.reading.analysis import analysis
from jobs.synthetic.job import recorded_job
from jobs.synthetic.log_files import write_rank_logs
from jobs.synthetic.mechanisms.work import LossLayer
from jobs.synthetic.shape import JobIdentity, JobShape
from jobs.synthetic.simulation import JobPlan, Simulation
from schemas.vocabulary import JOBS, RANK_STEPS
from tests.jobs.conftest import Ask
from tests.jobs.reading.warehouses import warehouse_of
from tests.support.examples import DAY, table_rows

SHAPE = JobShape(dp_size=2, pp_size=4, microbatches=8, steps=10, noop_transfers="all")
COLUMNS = ["mitigation", "plan", "assumes", "step_s", "time_saved_fraction", "gpu_hours_saved"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run whose last stage also computes the loss; job.json states the number of layers."""
    fields = {"gpu_hours": 50.0, "labels": {"layers": "32"}}
    identity = JobIdentity("llm", "r1", fields=fields)
    plan = JobPlan(SHAPE, [LossLayer(0.02, 0.04)], 1, identity)
    return write_rank_logs(tmp_path_factory.mktemp("landing"), DAY, recorded_job(Simulation(plan)))


@pytest.fixture(scope="module")
def warehouse(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    (run,) = runs_in(folder)
    found = analysis(run)
    rows = found.read.rows
    rows = rows.append_column("log_date", pa.repeat(pa.scalar(DAY), rows.num_rows))
    jobs = table_rows(JOBS, [run.unit._asdict() | dict(found.read.account.job or {})])
    return warehouse_of(tmp_path_factory.mktemp("warehouse"), **{RANK_STEPS: rows, JOBS: jobs}).root


def test_a_folder_and_its_unit_give_the_same_rows(ask: Ask, folder: Path) -> None:
    answers = [ask(main, of, "--format", "json") for of in (folder, "llm", "llm/r1@2026-01-05")]
    assert {said.status for said in answers} == {0}
    assert len({said.out for said in answers}) == 1
    (row,) = json.loads(answers[0].out)
    assert list(row) == COLUMNS
    assert row["mitigation"] == "layers between stages"
    assert row["plan"].endswith(" instead of 8, 8, 8, 8")
    assert row["gpu_hours_saved"] == pytest.approx(50 * row["time_saved_fraction"])
    assert row["time_saved_fraction"] > 0.05


def test_what_has_no_answer_is_said_above_the_table(ask: Ask) -> None:
    status, out, _ = ask(main, "llm", "--layers", "9,8,8,7", "--format", "table")
    assert status == 0
    assert out.startswith("llm, run r1, 2026-01-05: 10 steps, ")
    assert "\nno planned garbage collection: there is one worker, or none is known to pause" in out
    assert " instead of 9, 8, 8, 7 " in out


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["llm", "--layers", "31"], 2, "--layers: 31 layers do not fit 4 chunks of the model"),
        (["llm", "--layers", "8,x"], 2, "'8,x' is not a number of layers such as 32"),
        (["llm", "--memory", "0.9"], 2, "'0.9' is less than 1, the present use"),
        (["lm"], 2, "no job lm: did you mean llm?"),
        (["llm@2026-01-05..2026-01-06"], 2, "names several days, but only one unit is asked for"),
        (["llm@yesterday"], 2, "'yesterday' is not a date such as 2026-01-05"),
    ],
)
def test_wrong_arguments_give_one_line(ask: Ask, arguments: list[str], status: int, message: str) -> None:
    said = ask(main, *arguments)
    assert (said.status, said.out, said.err.count("\n")) == (status, "", 1)
    assert message in said.err


def test_a_run_that_cannot_be_replayed_says_why(call: Ask, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text((folder / "job.json").read_text())
    status, out, err = call(main, tmp_path)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert "no_ops" in err
