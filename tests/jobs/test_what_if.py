"""The what_if command: which unit it takes, what it prints, and what it says of what it cannot answer."""

import csv
import io
import json
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from jobs.reading.unit import NoSuchUnitError, choose_unit
from jobs.what_if import main
from schemas.unit import Unit
from schemas.vocabulary import JOBS, RANK_STEPS
from tests.jobs.reading.warehouses import warehouse_of
from tests.support.examples import DAY, NEXT_DAY, table_rows
from tests.udfs.lines import Ops, crossed_stages, line

SIZES = {"dp_size": 2, "pp_size": 1, "tp_size": 1, "cp_size": 1, "vpp_size": 1, "world_size": 2}
FORWARD = "op_type = 'forward-compute'"
COLUMNS = [
    "scenario",
    "change",
    "ops",
    "ops_share",
    "step_s",
    "slowdown",
    "time_saved_s",
    "time_saved_fraction",
    "gpu_hours_saved",
]


def replicas(slow_s: float) -> list[dict[str, Any]]:
    """Two replicas: forward 1 s and `slow_s`, then a reduce-scatter of 1 s."""
    lines = []
    for dp_rank, forward_s in enumerate((1, slow_s)):
        ops: Ops = [
            ("forward-compute", 0, forward_s),
            ("grads-reduce-scatter", forward_s, slow_s + 1 - forward_s),
        ]
        lines.append(line(7, dp_rank, 0, ops, host=f"node-{dp_rank}"))
    return lines


def unit(job_id: str, run_id: str, day: date, **more: object) -> dict[str, object]:
    return {"job_id": job_id, "run_id": run_id, "log_date": day, **more}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Job a: run r3 on two days, slow on the second; job b: two runs. Units c to e cannot be replayed."""
    crossed = SIZES | {"dp_size": 1, "pp_size": 2}
    jobs: list[dict[str, Any]] = [
        unit("llm-a", "r3", DAY) | SIZES,
        unit("llm-a", "r3", NEXT_DAY, gpu_hours=40.0) | SIZES,
        unit("llm-b", "r1", DAY, gpu_hours=None) | SIZES,
        unit("llm-b", "r2", DAY) | SIZES,
        unit("bad", "c", DAY, manifest_status="bad_layout", manifest_detail="world_size is 2") | SIZES,
        unit("bad", "d", DAY) | SIZES,
        unit("bad", "e", DAY) | crossed,
    ]
    rows = [
        *(unit("llm-a", "r3", DAY) | each for each in replicas(1)),
        *(unit("llm-a", "r3", NEXT_DAY) | each for each in replicas(3)),
        *(unit("llm-b", "r1", DAY) | each for each in replicas(3)),
        *(unit("llm-b", "r2", DAY) | each for each in replicas(5)),
        *(unit("bad", "e", DAY) | each for each in crossed_stages(7)),
    ]
    tables = {JOBS: table_rows(JOBS, jobs), RANK_STEPS: table_rows(RANK_STEPS, rows)}
    return warehouse_of(tmp_path_factory.mktemp("warehouse"), **tables).root


def ask(capsys: pytest.CaptureFixture[str], warehouse: str, *arguments: str) -> tuple[int, str, str]:
    """Exit status, standard output and standard error."""
    status = main([*arguments, "--warehouse", warehouse])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def test_the_answer_is_a_table_of_the_latest_day(capsys: pytest.CaptureFixture[str], warehouse: str) -> None:
    """Forward 1 and 3 s: T = 3 + 1; ideal forward 2 s: T_ideal = 2 + 1. The transfer is ideal already."""
    status, out, _ = ask(
        capsys, warehouse, "--job-id", "llm-a", "--fix", FORWARD, "--fix", "op_type LIKE 'grads%'"
    )
    assert status == 0
    first, second, _, *table = (line for line in out.splitlines() if line.strip())
    assert first == "llm-a, run r3, 2026-01-06: 1 steps, 4 ops"
    assert second == (
        "step time: 4.0 s recorded (T_actual), 4.0 s replayed (T), "
        "3.0 s ideal (T_ideal, pooled-mean-median); slowdown 1.333333"
    )
    head, _, *rows = table
    assert head.split() == COLUMNS
    assert [row.split() for row in rows] == [
        [*FORWARD.split(), "ideal", "2", "0.5", "3.0", "1.0", "1.0", "0.25", "10.0"],
        ["op_type", "LIKE", "'grads%'", "ideal", "2", "0.5", "4.0", "1.333333", "0.0", "0.0", "0.0"],
        ["all", "together", "ideal", "4", "1.0", "3.0", "1.0", "1.0", "0.25", "10.0"],
    ]


def test_ops_are_scaled_and_the_answer_is_json(capsys: pytest.CaptureFixture[str], warehouse: str) -> None:
    status, out, err = ask(
        capsys,
        warehouse,
        *("--job-id", "llm-b", "--run-id", "r1", "--log-date", str(DAY)),
        *("--fix", f"{FORWARD} AND host = 'node-1'", "--set", "0.5", "--format", "json"),
    )
    assert status == 0
    figures = [1, 1 / 4, 1.5 + 1, 2.5 / 3, 1.5, 1.5 / 4, None]
    row = dict(zip(COLUMNS, [f"{FORWARD} AND host = 'node-1'", "x 0.5", *figures], strict=True))
    assert json.loads(out) == [row]
    assert "T_actual" in err


def test_causes_are_fixed_by_their_names_beside_predicates(
    capsys: pytest.CaptureFixture[str], warehouse: str
) -> None:
    unit_asked = ("--job-id", "llm-a", "--format", "json")
    status, out, _ = ask(capsys, warehouse, *unit_asked, "--fix", "pause", "--fix", FORWARD)
    assert status == 0
    found = {row["scenario"]: row for row in json.loads(out)}
    assert list(found) == ["pause", "all causes", FORWARD]
    assert (found["pause"]["change"], found["pause"]["ops"], found[FORWARD]["change"]) == (
        "fixed",
        None,
        "ideal",
    )
    status, _, err = ask(capsys, warehouse, *unit_asked, "--fix", "pause", "--set", "0.5")
    assert status == 2
    assert "--set (factor): scales the ops of a predicate, and pause is a cause" in err


def test_an_earlier_day_and_csv(capsys: pytest.CaptureFixture[str], warehouse: str) -> None:
    status, out, _ = ask(
        capsys, warehouse, "--job-id", "llm-a", "--log-date", str(DAY), "--fix", "TRUE", "--format", "csv"
    )
    (row,) = csv.DictReader(io.StringIO(out))
    assert (status, row["step_s"], row["time_saved_s"], row["gpu_hours_saved"]) == (0, "2.0", "0.0", "0.0")


@pytest.mark.parametrize(
    ("fixes", "message"),
    [
        (["pp_rank = 8"], "pp_rank = 8: its pp_rank is 0 to 0"),
        (
            ["host = 'nod-1' AND dp_rank > 1"],
            "host = 'nod-1' AND dp_rank > 1: no host nod-1: did you mean node-",
        ),
        (
            [FORWARD, "op_type = 'params-all-gather'"],
            "op_type = 'params-all-gather': no op_type params-all-gather: c",
        ),
        (["microbatch < 0"], "microbatch < 0: its microbatch is 0 to 0"),
        (["FALSE"], "FALSE"),
    ],
)
def test_a_predicate_that_no_op_matches_is_a_wrong_argument(
    capsys: pytest.CaptureFixture[str], warehouse: str, fixes: list[str], message: str
) -> None:
    asked = [word for fix in fixes for word in ("--fix", fix)]
    status, out, err = ask(capsys, warehouse, "--job-id", "llm-a", *asked)
    assert (status, out) == (2, "")
    (line,) = err.splitlines()
    assert line.startswith(f"what_if: error: no op of this unit matches {message}")


def test_nothing_is_written(capsys: pytest.CaptureFixture[str], warehouse: str) -> None:
    before = sorted(path for path in Path(warehouse).rglob("*") if path.is_file())
    assert ask(capsys, warehouse, "--job-id", "llm-a", "--fix", "TRUE")[0] == 0
    assert sorted(path for path in Path(warehouse).rglob("*") if path.is_file()) == before


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--job-id", "llm-c"], 2, "no job llm-c: did you mean llm-"),
        (["--job-id", "zzz"], 2, "no job zzz: choose from bad, llm-a, llm-b"),
        (
            ["--job-id", "llm-b"],
            2,
            "job llm-b has several runs, name one by --run-id: run r1 on 2026-01-05, run r2 on 2026-01-05",
        ),
        (
            ["--job-id", "llm-a", "--run-id", "r1"],
            2,
            "job llm-a has no run r1: it has run r3 on 2026-01-05,",
        ),
        (["--job-id", "bad", "--run-id", "c"], 1, "bad_layout: world_size is 2"),
        (["--job-id", "bad", "--run-id", "d"], 1, "no step can be replayed: 0 recorded"),
        (["--job-id", "bad", "--run-id", "e"], 1, "step 7: "),
    ],
)
def test_an_unknown_unit_or_one_without_a_replay_gives_one_line(
    capsys: pytest.CaptureFixture[str], warehouse: str, arguments: list[str], status: int, message: str
) -> None:
    found, out, err = ask(capsys, warehouse, *arguments, "--fix", "TRUE")
    assert (found, out) == (status, "")
    (line,) = err.splitlines()
    assert line.startswith(f"what_if: error: {message}")


def test_a_folder_without_tables_is_a_wrong_argument(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    empty = tmp_path / "warehouse"
    empty.mkdir()
    status, out, err = ask(capsys, str(empty), "--job-id", "llm-a", "--fix", "TRUE")
    assert (status, out) == (2, "")
    (line,) = err.splitlines()
    assert line.endswith(f"no tables in {empty}: run a night first, or name another --warehouse")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing option '--job-id'."),
        (
            ["--fix", "stage = 3"],
            "Invalid value for '--fix': no column stage: did you mean pp_rank?; use the",
        ),
        (
            ["--fix", "slowworker"],
            "Invalid value for '--fix': slowworker is no cause and no condition: did you mean slow_worker?",
        ),
        (["--fix", "TRUE", "--set", "-1"], "Invalid value for '--set': '-1' is not a number of at least 0"),
        (["--fix", "TRUE", "--set", "nan"], "Invalid value for '--set': 'nan' is not a number of at least 0"),
        (
            ["--fix", "TRUE", "--set", "fast"],
            "Invalid value for '--set': 'fast' is not a number of at least 0",
        ),
        (["--fix", "TRUE", "--log-date", "today"], "Invalid value for '--log-date': 'today' is not a date"),
        (["--fix", "TRUE", "--format", "xml"], "Invalid value for '--format': 'xml' is unknown"),
    ],
)
def test_wrong_arguments_give_one_line(
    capsys: pytest.CaptureFixture[str], arguments: Sequence[str], message: str
) -> None:
    assert main([*(["--job-id", "llm-a"] if arguments else []), *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"what_if: error: {message}")


RUNS = [Unit(DAY, "a", "r1"), Unit(DAY, "a", "r2"), Unit(NEXT_DAY, "a", "r1")]


@pytest.mark.parametrize(
    ("run_id", "day", "wanted"),
    [(None, None, RUNS[2]), ("r2", None, RUNS[1]), ("r1", DAY, RUNS[0]), ("r1", None, RUNS[2])],
)
def test_the_latest_day_that_fits_is_chosen(run_id: str | None, day: date | None, wanted: Unit) -> None:
    assert choose_unit(RUNS, run_id, day) == wanted


@pytest.mark.parametrize(
    ("run_id", "day", "message"),
    [
        (None, DAY, "several runs, name one by --run-id: run r1 on 2026-01-05, run r2 on 2026-01-05$"),
        (
            "r2",
            NEXT_DAY,
            "has no run r2 on 2026-01-06: it has run r1 on 2026-01-05, run r1 on 2026-01-06, run",
        ),
        (None, date(2026, 1, 9), "has nothing on 2026-01-09: it has"),
    ],
)
def test_a_choice_that_fits_none_or_several(run_id: str | None, day: date | None, message: str) -> None:
    with pytest.raises(NoSuchUnitError, match=message):
        choose_unit(RUNS, run_id, day)
