"""Test the command diff, which compares two folders, two days, or the days before and after a date."""

import json
import shutil
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from jobs.diff_runs import course, main
from jobs.landing.one_run import runs_in
from jobs.reading.analysis import analysis
from jobs.reading.side import Day, Side
from jobs.synthetic.job import recorded_job
from jobs.synthetic.log_files import write_rank_logs
from jobs.synthetic.mechanisms.workers import WeakGpu
from jobs.synthetic.shape import JobIdentity, JobShape
from jobs.synthetic.simulation import JobPlan, Simulation
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import JOB_SLOWDOWN, JOBS, RANK_STEPS, RESULT_TABLES, Exit
from tests.jobs.conftest import Ask, Said
from tests.jobs.landing.formats.test_megatron_console import console
from tests.jobs.reading.warehouses import warehouse_of
from tests.jobs.report.pages import Page
from tests.support.examples import DAY, table_rows

SHAPE = JobShape(dp_size=4, pp_size=2, tp_size=4, microbatches=4, steps=12, noop_transfers="all")
SLOW = WeakGpu(dp_rank=1, pp_rank=1, factor=1.3)
SLOW_FROM = DAY + timedelta(days=2)
DAYS = [DAY + timedelta(days=number) for number in range(4)]
LANES = [(stage, rank, f"node-{(4 * stage + rank) // 2:04}") for stage in range(2) for rank in range(4)]
TOP = ["a", "b", "difference_s", "relative", "reach_s", "confidence", "verdict", "notes", "parts"]
PART = ["of", "part", "a_s", "b_s", "difference_s", "share", "low_s", "high_s", "verdict"]

Diff = Callable[..., Said]


def written(landing: Path, day: date, seed: int, shape: JobShape = SHAPE, *faults: WeakGpu) -> Path:
    """Write one day of a run's logs with the given faults; return its folder."""
    plan = JobPlan(shape, faults, seed, JobIdentity("llm", f"r{day.day}"))
    return write_rank_logs(landing, day, recorded_job(Simulation(plan)))


@pytest.fixture(scope="module")
def landing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four days of the job llm, one run each; one worker is slow from the third day on."""
    folder = tmp_path_factory.mktemp("landing")
    for seed, day in enumerate(DAYS):
        written(folder, day, seed, SHAPE, *([SLOW] if day >= SLOW_FROM else []))
    return folder


@pytest.fixture(scope="module")
def warehouse(landing: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Results of the four days, simulated but not revised, and recorded ops of all days but the first."""
    tables: dict[str, list[pa.Table]] = {name: [] for name in (*RESULT_TABLES, RANK_STEPS)}
    jobs: list[dict[str, Any]] = []
    for run in runs_in(landing):
        found = analysis(run)
        for name in RESULT_TABLES:
            tables[name].append(found.results[name])
        if run.unit.log_date > DAY:
            day = pa.repeat(pa.scalar(run.unit.log_date), found.read.rows.num_rows)
            tables[RANK_STEPS].append(found.read.rows.append_column("log_date", day))
        jobs.append(run.unit._asdict() | dict(found.read.account.job or {}))
    made = {name: pa.concat_tables(each) for name, each in tables.items()}
    return warehouse_of(
        tmp_path_factory.mktemp("warehouse"),
        **{name: each for name, each in made.items() if each.num_rows},
        **{JOBS: table_rows(JOBS, jobs)},
    ).root


def folder(landing: Path, day: date) -> Path:
    return landing / f"log_date={day}" / "job_id=llm" / f"run_id=r{day.day}"


def answer(said: Said) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(said.out)
    return read


def test_a_slower_folder_is_named_with_its_cause_stage_and_host(call: Ask, landing: Path) -> None:
    a, b = folder(landing, DAYS[0]), folder(landing, DAYS[2])
    said = call(main, a, b, "--format", "json", "--fail-above", "3%")
    assert said.status == Exit.SLOWER == 4
    assert said.err.startswith("diff: error: B is slower than A by ")
    assert said.err.endswith("more than 3.0 %\n")
    assert said.err.count("\n") == 1
    found = answer(said)
    assert list(found) == TOP
    assert {tuple(part) for part in found["parts"]} == {tuple(PART)}
    assert found["verdict"] == "slower"
    assert found["relative"] == pytest.approx(0.2, abs=0.05)
    largest: dict[str, Any] = {}
    for part in sorted(found["parts"], key=lambda part: part["difference_s"]):
        largest[part["of"]] = part
    assert largest["cause"]["part"] == "slow_worker"
    assert largest["op type"]["part"] == "backward-compute"
    assert largest["stage"]["part"] == "stage 1"
    assert largest["host"]["part"] == "node-0002"
    assert largest["stage"]["share"] == pytest.approx(1.0, abs=0.05)
    for kind in largest:
        total = sum(part["difference_s"] for part in found["parts"] if part["of"] == kind)
        assert total == pytest.approx(found["difference_s"], abs=1e-9)


def test_an_equal_run_is_no_failure_and_the_table_is_short(call: Ask, landing: Path) -> None:
    both = folder(landing, DAYS[0]), folder(landing, DAYS[1])
    said = call(main, *both, "--fail-above", "0.03", "--format", "table")
    assert (said.status, said.err) == (0, "")
    assert "B against A: no difference: a step takes " in said.out
    assert [line.split()[:2] for line in said.out.splitlines() if line.startswith(" step time")] == [
        ["step", "time"]
    ]


@pytest.mark.parametrize(
    ("days_s", "said"),
    [
        ([[1.0] * 30], []),
        (
            [[1.0] * 12 + [1.5] * 8 + [1.25] * 10],
            [
                (
                    "A takes 1 s a step, then 1.5 s from recorded step 13 on, "
                    "then 1.25 s from recorded step 21 on, of 30."
                )
            ],
        ),
        ([[1.0] * 9, [2.0] * 9], ["A takes 1 s a step, then 2 s from recorded step 10 on, of 18."]),
        ([[1.0]] * 3 + [[2.0]] * 4, ["A takes 1 s a step, then 2 s from day 4 on, of 7."]),
        (
            [[1.0 + 0.01 * step for step in range(30)]],
            ["A takes 1.05 s a step in its first third, and 1.24 s in its last: it drifts."],
        ),
    ],
)
def test_the_course_of_a_side_is_said_where_it_is_not_steady(
    days_s: list[list[float]], said: list[str]
) -> None:
    noise_s = 0.001 * np.array([0.0, 1.0, -1.0])
    days = [
        Day(
            Unit(DAY + timedelta(days=number), "llm", "r"), {}, np.array(each) + np.resize(noise_s, len(each))
        )
        for number, each in enumerate(days_s)
    ]
    assert list(course("A", Side("a side", days))) == [
        f"{each} The interval takes these changes into account." for each in said
    ]


def test_other_layouts_say_what_is_compared(call: Ask, landing: Path, tmp_path: Path) -> None:
    shape = JobShape(dp_size=2, pp_size=4, tp_size=4, microbatches=4, steps=12, noop_transfers="all")
    said = call(main, folder(landing, DAY), written(tmp_path, DAY, 9, shape), "--format", "json")
    found = answer(said)
    assert said.status == 0
    assert found["notes"] == [
        "The layouts differ: times of ops are compared by op type; see 'order and number of ops'"
    ]
    assert {part["of"] for part in found["parts"]} == {
        "step time", "cause", "op type", "exposed communication",
    }  # fmt: skip


def test_two_runs_of_the_warehouse_answer_as_their_folders(ask: Ask, landing: Path) -> None:
    of_folders = answer(ask(main, folder(landing, DAYS[1]), folder(landing, DAYS[3]), "--format", "json"))
    for names in (["llm/r6", "llm/r8"], ["llm@2026-01-06", "llm/r8@2026-01-08"]):
        of_warehouse = answer(ask(main, *names, "--format", "json"))
        assert of_warehouse["parts"] == of_folders["parts"]
        assert of_warehouse["a"]["units"] == of_folders["a"]["units"]
    beside = answer(ask(main, folder(landing, DAYS[1]), "llm@2026-01-08", "--format", "json"))
    assert beside["parts"] == of_folders["parts"]


def test_before_and_after_a_date_without_ops_that_expired(ask: Ask) -> None:
    said = ask(main, "llm", "--date", SLOW_FROM, "--format", "json", "--fail-above", "3%")
    found = answer(said)
    assert said.status == Exit.SLOWER
    assert [len(found[side]["units"]) for side in "ab"] == [2, 2]
    assert [found[side]["steps"] for side in "ab"] == [24, 24]
    note, days = found["notes"]
    assert days == "Days on which causes came or went: straggler changes --job-id llm"
    assert note == (
        "Not divided by op type, stage and host: llm before 2026-01-07: its recorded ops are no longer stored"
    )
    assert {part["of"] for part in found["parts"]} == {"step time", "cause", "exposed communication"}
    short = answer(ask(main, "llm", "--date", SLOW_FROM, "--days", "1", "--format", "json"))
    assert {part["part"] for part in short["parts"] if part["of"] == "host"} >= {"node-0002"}


def test_a_day_that_is_not_simulated_is_named(call: Ask, warehouse: str, tmp_path: Path) -> None:
    copy = shutil.copytree(warehouse, tmp_path / "warehouse")
    results = TABLES[JOB_SLOWDOWN]
    Warehouse(cast("SparkSession", None), str(copy)).replace(
        results, results.arrow_schema.empty_table(), [DAYS[1]]
    )
    sides = f"llm@{DAYS[0]}..{DAYS[2]}", f"llm@{DAYS[3]}"
    found = answer(call(main, *sides, "--warehouse", copy, "--format", "json"))
    assert [unit["log_date"] for unit in found["a"]["units"]] == [str(DAYS[0]), str(DAYS[2])]
    assert found["notes"][0] == (
        f"{sides[0]}: run r6 on {DAYS[1]} is left out: no results: straggler simulate --log-date {DAYS[1]}"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["llm"], "give either B, or --date for before and after it"),
        (["llm", "llm", "--date", "2026-01-07"], "give either B, or --date for before and after it"),
        (["llm@2026-01-06", "--date", "2026-01-07"], "llm@2026-01-06 names days, and so does --date"),
        (["llm@2026-01-06", "llm@2026-01-40"], "'2026-01-40' is not a date such as 2026-01-05"),
        (["lm", "llm@2026-01-06"], "lm is neither a folder nor a job of the warehouse: did you mean llm?"),
        (
            ["llm@2026-01-06..2026-01-07", "llm/r9"],
            "llm/r9: job llm has no run r9; the last that it has are run",
        ),
        (
            ["llm", "--date", "2026-01-05"],
            "llm before 2026-01-05: job llm has no run on the 7 days from 2025-12-29 to 2026-01-04; the last",
        ),
        (
            ["llm/r5", "--date", "2026-01-07", "--days", "1"],
            "llm/r5 before 2026-01-07: job llm has no run r5 on 2026-01-06; the last that it has are run",
        ),
        (
            ["llm", "missing", "--warehouse", "/no/warehouse"],
            "llm is neither a folder nor a run: no tables in /no/warehouse: ",
        ),
        (["llm", "llm", "--fail-above", "3"], "'3' is not a share such as 3% or 0.03"),
    ],
)
def test_wrong_arguments_give_one_line(ask: Ask, arguments: list[str], message: str) -> None:
    status, out, err = ask(main, *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_a_folder_of_several_runs_is_no_side(call: Ask, landing: Path) -> None:
    for sides in ((landing, folder(landing, DAY)), (folder(landing, DAY), landing)):
        status, out, err = call(main, *sides)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert f"{landing} holds 4 runs: name the folder of one" in err


def test_a_side_without_steps_says_why(call: Ask, landing: Path, tmp_path: Path) -> None:
    run = written(tmp_path, DAY, 1, SHAPE)
    (run / "job.json").write_text("{}")
    status, out, err = call(main, folder(landing, DAY), run)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert "no step times to compare" in err
    assert "bad_layout" in err


def test_a_side_that_was_not_replayed_is_named(call: Ask, landing: Path, tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(console([700.0] * 12))
    found = answer(call(main, folder(landing, DAY), tmp_path, "--format", "json"))
    (printed,) = found["b"]["units"]
    run = f"run {printed['run_id']} on {printed['log_date']}"
    assert found["notes"][0] == (
        f"Not divided by op type, stage and host: {tmp_path}: {run} was not replayed: step times and no ops"
    )


def test_the_page_has_a_step_of_each_at_one_scale(call: Ask, landing: Path, tmp_path: Path) -> None:
    """The page draws one step of each of the two runs, both on the same time scale."""
    file = tmp_path / "diff.html"
    said = call(main, folder(landing, DAYS[0]), folder(landing, DAYS[2]), "--page", file)
    assert said.status == 0
    page = Page(file.read_bytes())
    assert "B against A: slower: a step takes " in page.text
    assert not page.open
    assert not page.all("script", "src") + page.all("link", "href")[1:]
    titles = page.all("svg", "aria-label")
    assert titles == [f"Ops of stage {stage}, dp rank {rank}, {host}" for stage, rank, host in LANES] * 2
    widths = [float(each) for each in page.all("rect", "width")]
    forwards = [each == "op-forward" for each in page.all("rect", "class")]
    drawn = [width for width, is_forward in zip(widths, forwards, strict=True) if is_forward]
    a, b = np.array(drawn).reshape(2, len(LANES), SHAPE.microbatches)
    slow = LANES.index((1, 1, "node-0002"))
    assert np.median(b[slow]) / np.median(a[slow]) == pytest.approx(1.3, rel=0.05)
    assert np.median(b[0]) / np.median(a[0]) == pytest.approx(1.0, rel=0.05)


def test_without_recorded_ops_the_page_has_the_parts_alone(ask: Ask, warehouse: str, tmp_path: Path) -> None:
    file = tmp_path / "diff.html"
    said = ask(main, f"llm@{DAYS[0]}", f"llm@{DAYS[2]}", "--page", file)
    assert said.status == 0
    page = Page(file.read_bytes())
    assert "Parts of the difference" in page.text
    assert not page.all("svg", "aria-label")
