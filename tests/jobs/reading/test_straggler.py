"""The examples of the module `straggler` for notebooks hold on a warehouse of one job."""

import ast
import doctest
import importlib
import json
import runpy
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from jobs.landing.one_run import NoRunError, runs_in
from jobs.reading import straggler
from jobs.reading.analysis import analysis
from jobs.reading.figures import CHARTS
from jobs.reading.unit import NoSuchUnitError
from jobs.runtime.project import PROJECT
from jobs.warehouse.reader import QuestionError
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import JOBS, RANK_STEPS
from tests.jobs.reading.warehouses import warehouse_of

UNIT = Unit(date(2026, 1, 5), "a", "r1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, published_traces: Path) -> Path:
    """Folder that contains demo/warehouse, a warehouse of one job: the published trace ST."""
    made = tmp_path_factory.mktemp("user")
    run = made / "log_date=2026-01-05" / "job_id=gpt-175b" / "run_id=r1"
    shutil.copytree(published_traces / "ST", run)
    (found,) = runs_in(run)
    read = analysis(found)
    manifest = pa.Table.from_pylist(
        [read.unit._asdict() | (read.read.account.job or {})], TABLES[JOBS].arrow_schema
    )
    key = read.unit._asdict()
    rows = pa.Table.from_pylist(
        [key | row for row in read.read.rows.to_pylist()], TABLES[RANK_STEPS].arrow_schema
    )
    warehouse_of(
        made / "demo" / "warehouse",
        **{JOBS: manifest, RANK_STEPS: rows},
        **{name: table for name, table in read.results.items() if table.num_rows},
    )
    (made / "tests").symlink_to(PROJECT / "tests")
    return made


def test_its_examples_hold(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setitem(sys.modules, "straggler", straggler)
    done = doctest.testmod(straggler)
    assert done.attempted > 12
    assert done.failed == 0


def test_the_notebook_runs_and_each_cell_shows_something(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setitem(sys.modules, "straggler", straggler)
    cells = json.loads((PROJECT / "jobs/reading/straggler/tour.ipynb").read_text(encoding="utf-8"))["cells"]
    script = ast.Module([], [])
    for cell in (each for each in cells if each["cell_type"] == "code"):
        *lines, last = ast.parse("".join(cell["source"])).body
        if isinstance(last, ast.Expr):
            last = ast.Expr(ast.Call(ast.Name("show"), [last.value], []))
        script.body += [*lines, last]
    (folder / "tour.py").write_text(ast.unparse(script))
    values: list[Any] = []
    runpy.run_path(str(folder / "tour.py"), {"show": values.append})
    shown = [
        next(iter(value._repr_mimebundle_().values())) if hasattr(value, "_repr_mimebundle_") else repr(value)
        for value in values
    ]
    assert len(shown) > 10
    assert all(shown)
    assert sum(each.startswith("<svg") for each in shown) == 5
    assert (folder / "waterfall.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "slowest-step.json.gz").stat().st_size > 1000


def test_rows_show_themselves_and_count_what_they_leave_out() -> None:
    rows = straggler.Rows(
        pa.table({"job": [f"job-{n}" for n in range(25)], "lost_gpu_hours": [1234.5678] * 25})
    )
    head, _, first, *more, count = repr(rows).splitlines()
    assert (head.split(), first.split()) == (["job", "lost_gpu_hours"], ["job-0", "1234.6"])
    assert (len(more), count) == (19, "25 rows (20 shown)")
    assert rows.df().equals(rows.pandas())
    assert rows.pl().equals(rows.polars())
    assert repr(straggler.Rows(pa.table({"a": [None]}))).endswith("\n1 row")
    wide = pa.table({f"a_column_{n}": ["some words"] * 2 for n in range(40)})
    assert repr(straggler.Rows(wide)).endswith(": SELECT fewer, or .arrow has all")


def test_a_run_and_a_unit_answer_alike(folder: Path) -> None:
    run = straggler.analyse(folder / "log_date=2026-01-05" / "job_id=gpt-175b" / "run_id=r1")
    unit = straggler.open(folder / "demo" / "warehouse").unit("gpt-175b")
    assert repr(run).startswith("<Run gpt-175b, run r1: A step takes ")
    assert run.causes.arrow == unit.causes.arrow
    assert run.culprits.arrow == unit.culprits.arrow
    assert run.what_if("stage_imbalance").arrow == unit.what_if("stage_imbalance").arrow
    named = [each.what_if("op_type LIKE '%compute'", set=0.5).arrow for each in (run, unit)]
    assert named[0] == named[1] == run.what_if("op_type LIKE '%compute'", factor=0.5).arrow
    assert unit.mitigate(96).arrow == run.mitigate(96).arrow
    assert unit.mitigate(96).arrow["plan"].to_pylist()[0].endswith(" instead of 24, 24, 24, 24")
    assert (unit.status, unit.slowdown) == (run.status, run.slowdown) == ("analysed", run.slowdown)
    assert run.timeline(step=run.timeline().step).step == unit.timeline().step
    with pytest.raises(ValueError, match=r"saved as .png or .svg"):
        run.figures.causes.save(folder / "causes.gif")


def test_its_short_name_is_the_same_module() -> None:
    """`straggler` and `jobs.reading.straggler` are one module, so that their error classes are the same."""
    assert importlib.import_module("straggler") is straggler


def test_a_unit_is_simulated_again_as_the_night_did_and_with_other_settings(folder: Path) -> None:
    fleet = straggler.open(folder / "demo" / "warehouse")
    unit = fleet.unit("gpt-175b")
    (night,) = fleet.sql("SELECT slowdown FROM job_slowdown").arrow["slowdown"].to_pylist()
    assert unit.simulate_job()["job_slowdown"].arrow["slowdown"].to_pylist() == [night]
    stricter = unit.simulate_job(minimum_steps=1000)["job_slowdown"].arrow
    assert stricter["status"].to_pylist() == ["too_few_steps"]
    saved = unit.what_if("op_type LIKE '%compute'", factor=0.5).arrow["time_saved_fraction"].to_pylist()
    assert 0 < saved[0] < 0.5


def test_a_figure_is_drawn_without_a_network(folder: Path) -> None:
    bundle = straggler.open(folder / "demo" / "warehouse").unit("gpt-175b").figure()._repr_mimebundle_()
    assert str(bundle["image/svg+xml"]).startswith("<svg")
    assert bundle["text/plain"] == "<Figure: slowdown by each worker of gpt-175b>"


def test_a_figure_is_drawn_where_standard_input_is_closed() -> None:
    code = (
        "import os; os.close(0); from jobs.reading import straggler\n"
        "print(straggler.Figure('bar', {'mark': 'bar', 'data': {'values': [{'é': 1}]}}).svg()[:4])"
    )
    drawn = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert (drawn.returncode, drawn.stdout) == (0, "<svg\n"), drawn.stderr


def test_a_figure_that_cannot_be_drawn_says_what_the_converter_said() -> None:
    with pytest.raises(straggler.FigureError, match=r"a line was not drawn, status 1: (?s:.+)Vega-Lite"):
        straggler.Figure("a line", {"mark": {"type": "no such mark"}}).svg()


@pytest.mark.parametrize("deaths", [1, 2])
def test_a_converter_that_a_signal_ends_is_started_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deaths: int
) -> None:
    started = tmp_path / "started"
    python = tmp_path / "python"
    python.write_text(
        f"#!/bin/sh\necho >> {started}\n"
        f"test $(wc -l < {started}) -gt {deaths} || {{ echo no room >&2; kill -ABRT $$; }}\necho '<svg'\n"
    )
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    figure = straggler.Figure("a line", {})
    if deaths == 1:
        assert figure.svg() == "<svg\n"
    else:
        with pytest.raises(straggler.FigureError, match="a line was not drawn, status -6: no room"):
            figure.svg()


def test_a_figure_reads_its_unit_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = straggler.open(folder / "demo" / "warehouse").unit("gpt-175b")
    asked: list[str] = []

    def rows(sql: str) -> pa.Table:
        asked.append(sql)
        worker = {"pp_rank": 0, "dp_rank": 0, "rank": 0, "host": "n1", "slowdown": 1.0}
        return pa.Table.from_pylist([worker])

    monkeypatch.setattr(unit._reader, "rows", rows)
    unit.figure()
    assert len(asked) == 1
    assert "'gpt-175b'" in asked[0]
    assert "'r1'" in asked[0]


def test_figures_of_a_unit_that_was_not_analysed_say_why_there_is_nothing_to_draw() -> None:
    job = {"status": "bad_layout", "status_detail": "dp_size is missing"}
    figures = straggler.Figures(UNIT, lambda name: [job] if name == "job_slowdown" else [])
    for name in CHARTS:
        with pytest.raises(straggler.FigureError, match=r"for a, run r1, 2026-01-05: bad_layout, dp_size is"):
            getattr(figures, name)
    with pytest.raises(straggler.FigureError, match="is not simulated yet"):
        straggler.Figures(UNIT, lambda _: []).causes  # noqa: B018  # the property raises


def test_the_chart_of_steps_joins_only_steps_that_follow_each_other() -> None:
    steps = [{"step": step, "slowdown": 1.0} for step in (7, 61, 8, 60)]
    spec = straggler.Figures(UNIT, lambda _: steps).steps.spec
    bursts = [(row["step"], row["burst"]) for row in spec["data"]["values"]]
    assert [step for step, _ in bursts] == [7, 8, 60, 61]
    assert bursts[0][1] == bursts[1][1] != bursts[2][1] == bursts[3][1]
    assert spec["encoding"]["detail"] == {"field": "burst"}


def test_a_figure_is_chosen_by_name(folder: Path) -> None:
    unit = straggler.open(folder / "demo" / "warehouse").unit("gpt-175b")
    assert unit.figure("causes").spec == unit.figures.causes.spec
    assert unit.figure().spec["encoding"]["color"]["legend"] == {"titleLimit": 0}, (
        "the legend's title is not cut"
    )
    with pytest.raises(ValueError, match="no figure worker: did you mean workers"):
        unit.figure("worker")


@pytest.mark.parametrize(
    "names", [("straggler", "jobs.reading.straggler"), ("jobs.reading.straggler", "straggler")]
)
def test_it_is_one_module_by_both_names(names: tuple[str, str]) -> None:
    first, second = names
    code = f"import {first}, {second}; print({first} is {second})"
    path = str(PROJECT / "jobs" / "reading")
    command = [sys.executable, "-c", f"import sys; sys.path.append({path!r}); {code}"]
    assert subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True).stdout == "True\n"


def test_an_error_suggests_the_closest_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRAGGLER_WAREHOUSE", str(folder / "demo" / "warehouse"))
    fleet = straggler.open()
    with pytest.raises(QuestionError, match="did you mean job_slowdown"):
        fleet.table("job_slowdwn")
    with pytest.raises(NoSuchUnitError, match="did you mean gpt-175b"):
        fleet.unit("gpt-175")
    assert fleet.unit("gpt-175b/r1").key == fleet.unit("gpt-175b").key
    with pytest.raises(NoSuchUnitError, match="job gpt-175b has no run r2: it has run r1 on"):
        fleet.unit("gpt-175b/r2")
    with pytest.raises(NoSuchUnitError, match="gpt-175b/r1 names the run r1, and r2 is given beside it: "):
        fleet.unit("gpt-175b/r1", "r2")
    assert fleet.unit("gpt-175b", log_date="2026-01-05").key == fleet.unit("gpt-175b").key
    with pytest.raises(NoSuchUnitError, match="has nothing on 2026-01-06"):
        fleet.unit("gpt-175b", log_date="2026-01-06")
    with pytest.raises(ValueError, match="Invalid isoformat"):
        fleet.unit("gpt-175b", log_date="yesterday")
    for text in ("gpt-175b@2026-01-05", "gpt-175b/r1@2026-01-05"):
        assert fleet.unit(text).key == fleet.unit("gpt-175b").key
    both_days = "names the day 2026-01-06, and 2026-01-05 is given beside it: name one unit, as JOB/RUN@DAY$"
    with pytest.raises(NoSuchUnitError, match=both_days):
        fleet.unit("gpt-175b@2026-01-06", log_date="2026-01-05")
    with pytest.raises(NoRunError, match="holds no run"):
        straggler.analyse(folder / "demo")


def test_without_a_warehouse_the_argument_of_python_is_named(folder: Path) -> None:
    with pytest.raises(
        QuestionError, match=r"no tables in .*: run a night first, .* straggler.open\(path\)$"
    ):
        straggler.open(folder / "none at all")
    with pytest.raises(QuestionError, match=r"did you mean warehouse in "):
        straggler.open(folder / "demo" / "warehose")
