"""Earlier runs change the right rows of job_causes, and leave all other rows as they are."""

from collections.abc import Sequence
from math import isfinite
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.causes import JUDGED_BY_HISTORY
from schemas.vocabulary import CAUSES
from tests.support.examples import culprit
from tests.udfs.revise.test_history import ELSEWHERE, run
from udfs.revise.causes import History, Measured, Row, revise, with_usual_transfers
from udfs.revise.history import Run, SlowHost, Stage

OPEN = "slow_worker_or_stage_imbalance"
SLOW = run([1.0, 1.5, 1.0, 1.0])
HEAVY: Row = {"pp_rank": 1, "dp_rank": None, "rank": None, "host": None, "effect": 0.33, "workers": []}


FRACTIONS = ("time_saved_fraction", "attributed_fraction")


def causes(flag: str | None = OPEN, imbalance: float = 0.2, attributed: float = 0.1) -> list[Row]:
    """Return rows of job_causes of a unit in which stage_imbalance is the only named cause."""
    rows: list[Row] = [
        {
            "cause": cause,
            "is_cause": False,
            "time_saved_fraction": 0.0,
            "attributed_fraction": 0.0,
            "recoverable_gpu_hours": 0.0,
            "attributed_gpu_hours": 0.0,
            **{f"{name}_{end}": None for name in FRACTIONS for end in ("low", "high")},
            "flag_reason": None,
            "culprits": [],
            "evidence": {"peers": 3.0},
            "unrevised": None,
        }
        for cause in CAUSES
    ]
    rows[0]["flag_reason"] = flag
    rows[1] |= {"is_cause": imbalance > 0.025, "time_saved_fraction": imbalance, "flag_reason": flag}
    rows[1] |= {"attributed_fraction": attributed, "culprits": [HEAVY]}
    return rows


def revised(
    unit: Run,
    runs: list[Run],
    rows: list[Row],
    hours: float | None = 64.0,
    replayed: Sequence[Row] = (),
    **slow_hosts: SlowHost,
) -> dict[str, Row]:
    """Return the revised causes, by name, of a unit with steps of 2 s and one worker per stage."""
    workers: list[dict[str, Any]] = [
        {"pp_rank": stage, "dp_rank": 0, "rank": 8 * stage, "host": next(iter(of.hosts), None)}
        for stage, of in enumerate(unit.stages)
    ]
    measured = Measured(unit, 2.0, hours, lambda: workers)
    found = with_usual_transfers(*revise(rows, measured, History(runs, slow_hosts), 2), measured, replayed)
    assert [row["cause"] for row in found] == list(CAUSES)
    return {row["cause"]: row for row in found}


def test_what_a_slow_host_costs_moves_from_the_stage_to_the_worker() -> None:
    before = causes()
    found = revised(SLOW, ELSEWHERE, before)
    worker, stage = found["slow_worker"], found["stage_imbalance"]
    assert (worker["is_cause"], worker["time_saved_fraction"]) == (True, 0.25)
    assert worker["attributed_fraction"] == 0.125, "half of the saving by the fix alone, as for the imbalance"
    assert (worker["recoverable_gpu_hours"], worker["attributed_gpu_hours"]) == (16.0, 8.0)
    of_no_step: Row = {"first_step": None, "last_step": None}
    assert worker["culprits"] == [culprit(0.5, pp_rank=1, dp_rank=0, rank=8, host="b", **of_no_step)]
    assert (stage["is_cause"], stage["time_saved_fraction"], stage["culprits"]) == (False, 0.0, [])
    assert worker["flag_reason"] == stage["flag_reason"] == JUDGED_BY_HISTORY
    history = {"history_runs": 2.0, "history_jobs": 0.0, "history_factor": 1.5, "revised_from": 0.2}
    assert stage["evidence"] == {"peers": 3.0} | history
    before_it = stage["unrevised"]
    assert before_it == {name: before[1][name] for name in before_it}
    assert {name for name in CAUSES if found[name]["unrevised"] is None} == set(CAUSES[2:])


def test_a_host_whose_workers_are_all_slow_is_one_culprit() -> None:
    worker = revised(run([1.0, 1.5, 1.5, 1.0], "abbd"), ELSEWHERE, causes())["slow_worker"]
    (found,) = worker["culprits"]
    assert (found["reach"], found["slow_host"], found["host"], found["rank"]) == ("host", "b", None, None)
    assert [each["pp_rank"] for each in found["workers"]] == [1, 2]
    assert found["effect"] == pytest.approx(0.5)
    half = revised(run([1.0, 1.5, 1.0, 1.0], "abbd"), ELSEWHERE, causes())["slow_worker"]
    assert [(each["reach"], each["host"]) for each in half["culprits"]] == [("worker", "b")]


def test_a_heavy_stage_is_confirmed_with_its_figures_as_they_were() -> None:
    heavy = [run([1.0, 1.5, 1.0, 1.0], hosts) for hosts in ("efgh", "ijkl")]
    found = revised(SLOW, heavy, causes())
    stage = found["stage_imbalance"]
    assert (stage["is_cause"], stage["time_saved_fraction"], stage["culprits"]) == (True, 0.2, [HEAVY])
    assert stage["flag_reason"] == found["slow_worker"]["flag_reason"] == JUDGED_BY_HISTORY
    assert found["slow_worker"]["is_cause"] is False


@pytest.mark.parametrize(
    ("flag", "runs"),
    [
        (OPEN, []),
        (OPEN, ELSEWHERE[:1]),
        ("few_steps", ELSEWHERE),
        ("high_discrepancy", ELSEWHERE),
    ],
)
def test_without_history_or_without_a_measurement_rows_stay(flag: str, runs: list[Run]) -> None:
    assert list(revised(SLOW, runs, causes(flag)).values()) == causes(flag)


def test_an_unflagged_row_is_revised_only_where_history_contradicts_it() -> None:
    heavy = [run([1.0, 1.5, 1.0, 1.0], hosts) for hosts in ("efgh", "ijkl")]
    assert list(revised(SLOW, heavy, causes(None)).values()) == causes(None)
    assert revised(SLOW, ELSEWHERE, causes(None))["slow_worker"]["flag_reason"] == JUDGED_BY_HISTORY


def test_hosts_known_from_other_jobs_say_in_how_many() -> None:
    worker = revised(SLOW, [], causes(), None, b=SlowHost(3, 0.5))["slow_worker"]
    assert (worker["evidence"]["history_jobs"], worker["evidence"]["history_factor"]) == (3.0, 1.5)
    assert worker["recoverable_gpu_hours"] is None


def test_slow_transfers_save_what_a_replay_says_and_nothing_is_added_to_it() -> None:
    """Slow transfers save what a replay with usual times shows; losses of other causes stay the same."""
    rows, replayed = causes(None, 0.125, 0.125), causes(None, 0.125, 0.0625)
    rows[4] |= {"time_saved_fraction": 0.0625, "attributed_fraction": 0.0625, "is_cause": True}
    replayed[4] |= {"time_saved_fraction": 0.3125, "attributed_fraction": 0.25, "is_cause": True}
    slow = run(ideal_step_s=2.5, forward_pp_comm=0.02)
    found = revised(slow, ELSEWHERE, rows, replayed=replayed)
    link = found["communication"]
    assert (link["time_saved_fraction"], link["attributed_fraction"]) == (0.3125, 0.1875)
    assert list(revised(slow, ELSEWHERE, rows, replayed=rows).values()) == rows
    assert link["evidence"]["history_factor"] == pytest.approx(10.0)
    assert link["unrevised"]["time_saved_fraction"] == link["evidence"]["revised_from"] == 0.0625
    assert all(found[name]["unrevised"] is None for name in CAUSES if name != "communication")


def test_usual_transfers_answer_a_flag_and_nothing_else() -> None:
    unit = run(ideal_step_s=2.5)
    rows = causes(None, 0.0, 0.0)
    assert list(revised(unit, ELSEWHERE, rows).values()) == rows
    rows[4]["flag_reason"] = "no_usual_transfer"
    link = revised(unit, ELSEWHERE, rows)["communication"]
    assert (link["flag_reason"], link["time_saved_fraction"]) == (JUDGED_BY_HISTORY, 0.0)


@st.composite
def any_run(draw: st.DrawFn) -> Run:
    """Draw a run of two stages, each of which may take no time."""
    times_s = st.sampled_from([0.0, 1e-5, 1.0, 1.4, 3.0])
    hosts = st.frozensets(st.sampled_from("abc"), max_size=2)
    stages = [Stage(draw(times_s), draw(hosts)) for _ in range(2)]
    op_types = st.sampled_from(["forward-compute", "forward-pp-comm", "params-all-gather"])
    op_types_s = draw(st.dictionaries(op_types, times_s))
    return Run(
        100.0, max(0.0, *(stage.compute_s for stage in stages), *op_types_s.values()), stages, op_types_s
    )


@given(any_run(), st.lists(any_run(), max_size=3), st.sampled_from([OPEN, "few_peers", None]))
def test_whatever_was_recorded_is_revised_to_finite_figures(
    unit: Run, runs: list[Run], flag: str | None
) -> None:
    """Revised figures are finite whatever was recorded, because an error would stop the whole night."""
    workers = [dict.fromkeys(("dp_rank", "rank", "host"), None) | {"pp_rank": stage} for stage in range(2)]
    rows = causes(flag)
    rows[4]["flag_reason"] = "no_usual_transfer"
    known = History(runs, {"a": SlowHost(2, 0.3)})
    measured = Measured(unit, unit.ideal_step_s, 64.0, lambda: workers)
    for row in with_usual_transfers(*revise(rows, measured, known, 2), measured, rows):
        figures = [row["time_saved_fraction"], row["attributed_fraction"], *row["evidence"].values()]
        assert all(map(isfinite, figures)), row


def test_what_moves_takes_its_error_along() -> None:
    before = causes()
    for row, half in zip(before[:2], [0.0625, 0.03125], strict=True):
        for name in FRACTIONS:
            row |= {f"{name}_low": row[name] - half, f"{name}_high": row[name] + half}
    found = revised(SLOW, ELSEWHERE, before)
    worker, stage = found["slow_worker"], found["stage_imbalance"]
    assert worker["time_saved_fraction_low"] == pytest.approx(0.25 - 0.09375)
    assert worker["recoverable_gpu_hours_high"] == pytest.approx(64 * (0.25 + 0.09375))
    assert worker["attributed_gpu_hours_low"] == pytest.approx(64 * (0.125 - 0.09375))
    assert stage["time_saved_fraction_high"] == pytest.approx(0.03125)
    assert stage["unrevised"]["time_saved_fraction_high"] == before[1]["time_saved_fraction_high"]
