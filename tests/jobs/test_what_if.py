"""Test the command what-if: its output, and its errors for units that cannot be replayed."""

import csv
import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from jobs.what_if import _one_end, main
from tests.jobs.conftest import Ask
from tests.jobs.reading.warehouses import replicated, warehouse_of
from tests.support.examples import DAY
from udfs.custom_scenario import Answers

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


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    return warehouse_of(tmp_path_factory.mktemp("warehouse"), **replicated()).root


def test_the_answer_is_a_table_of_the_latest_day(ask: Ask) -> None:
    """Without --log-date, what-if replays the latest day, whose step takes 4 s and ideally 3 s."""
    status, out, _ = ask(
        main, "--job-id", "llm-a", "--fix", FORWARD, "--fix", "op_type LIKE 'grads%'", "--format", "table"
    )
    assert status == 0
    first, second, _, together, *table = (line for line in out.splitlines() if line.strip())
    assert first == "llm-a, run r3, 2026-01-06: 1 step, 4 ops"
    assert second == (
        "step time: 4.0 s recorded (T_actual), 4.0 s replayed (T), "
        "3.0 s ideal (T_ideal, pooled-mean-median); slowdown 1.333333"
    )
    assert together == "all together: 1.0 s saved, as much as the sum of each alone"
    head, _, *rows = table
    assert head.split() == COLUMNS
    assert [row.split() for row in rows] == [
        [*FORWARD.split(), "ideal", "2", "0.5", "3.0", "1.0", "1.0", "0.25", "10.0"],
        ["op_type", "LIKE", "'grads%'", "ideal", "2", "0.5", "4.0", "1.333333", "0.0", "0.0", "0.0"],
        ["all", "together", "ideal", "4", "1.0", "3.0", "1.0", "1.0", "0.25", "10.0"],
    ]


def test_what_two_scenarios_share_is_said_beside_them(ask: Ask) -> None:
    """The output states how many ops are in several fixes: their time cannot be saved twice."""
    one = f"{FORWARD} AND host = 'node-1'"
    fixes = ("--fix", FORWARD, "--fix", one, "--set", "0.5")
    _, out, err = ask(main, "--job-id", "llm-a", *fixes)
    assert "where each alone saves " in err
    assert err.endswith("a saving of one fix cannot be saved again by another (in more than one: 1 op)\n")
    assert out.startswith("scenario\tchange\t"), "notes go to standard error"
    _, _, err = ask(main, "--job-id", "llm-a", "--fix", "pause")
    assert "all causes: " in err
    assert "another" not in err, "no such note if a scenario is a cause"
    _, _, err = ask(main, "--job-id", "llm-a", "--fix", FORWARD)
    assert "together" not in err


@pytest.mark.parametrize(
    ("scenarios", "said"),
    [
        (["op_type = 'forward-send'"], "forward-send and forward-recv are the ends of one transfer"),
        (
            ["op_type = 'backward-recv'", FORWARD],
            "backward-recv and backward-send are the ends of one transfer",
        ),
        (["op_type = 'forward-send'", "op_type = 'forward-recv'"], ""),
        ([FORWARD], ""),
    ],
)
def test_of_one_end_of_a_transfer_the_other_is_named(scenarios: list[str], said: str) -> None:
    answers = cast("Answers", SimpleNamespace(answers=[SimpleNamespace(scenario=each) for each in scenarios]))
    assert _one_end(answers).partition(",")[0] == said


def test_two_scenarios_may_save_more_than_each_alone(ask: Ask) -> None:
    """Two fixes together may save more than the sum of each alone, as one slow replica hides the other."""
    fixes = [f"{FORWARD} AND dp_rank = {rank}" for rank in (0, 1)]
    _, _, err = ask(main, "--job-id", "llm-a", "--fix", fixes[0], "--fix", fixes[1], "--set", "0.2")
    assert (
        "2.4 s saved, where each alone saves 2.0 s in sum: slowness that one fix leaves "
        "hides the saving of another\n" in err
    )


def test_ops_are_scaled_and_the_answer_is_json(ask: Ask) -> None:
    fix = f"{FORWARD} AND host = 'node-1'"
    of_unit = ("--job-id", "llm-b", "--run-id", "r1", "--log-date", DAY)
    status, out, err = ask(main, *of_unit, "--fix", fix, "--set", "0.5", "--format", "json")
    figures = [1, 1 / 4, 1.5 + 1, 2.5 / 3, 1.5, 1.5 / 4, None]
    assert (status, json.loads(out)) == (0, [dict(zip(COLUMNS, [fix, "x 0.5", *figures], strict=True))])
    assert "T_actual" in err


def test_causes_are_fixed_by_their_names_beside_predicates(ask: Ask) -> None:
    status, out, _ = ask(main, "--job-id", "llm-a", "--format", "json", "--fix", "pause", "--fix", FORWARD)
    assert status == 0
    found = {row["scenario"]: (row["change"], row["ops"]) for row in json.loads(out)}
    assert found == {"pause": ("fixed", None), "all causes": ("fixed", None), FORWARD: ("ideal", 2)}


def test_an_earlier_day_and_csv_and_nothing_is_written(ask: Ask, warehouse: str) -> None:
    before = {*Path(warehouse).rglob("*")}
    status, out, _ = ask(main, "--job-id", "llm-a", "--log-date", DAY, "--fix", "TRUE", "--format", "csv")
    (row,) = csv.DictReader(io.StringIO(out))
    assert (status, row["step_s"], row["time_saved_s"], row["gpu_hours_saved"]) == (0, "2.0", "0.0", "0.0")
    assert {*Path(warehouse).rglob("*")} == before


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ("c", "bad_layout: world_size is 2"),
        ("d", "no_ops: no rank recorded an op"),
        ("e", "step 7: "),
    ],
)
def test_a_unit_without_a_replay_gives_one_line(ask: Ask, run: str, message: str) -> None:
    status, out, err = ask(main, "--job-id", "bad", "--run-id", run, "--fix", "TRUE")
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(f"what_if: error: {message}")
