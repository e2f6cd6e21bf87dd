"""Jobs of several roles give results computed by hand, and those of the reference implementation."""

from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from schemas.tables import TABLES
from schemas.vocabulary import ROLE_EFFECT, ROLE_ITERATION, ROLE_STEP
from tests.oracle import wholes
from udfs.roles.role_tables import role_tables

DAY = date(2026, 1, 5)
NOON_US = 1_767_614_400_000_000
Rows = list[dict[str, Any]]


def step(role: str, iteration: int, start_s: float, end_s: float, **more: Any) -> dict[str, Any]:  # noqa: ANN401  # any columns
    """Return a row of role_step whose ideal time is half its time."""
    length_s = end_s - start_s
    return {
        "log_date": DAY,
        "job_id": role,
        "run_id": "r0",
        "step": round(1000 * start_s),
        "part_of": "rlhf",
        "role": role,
        "iteration": iteration,
        "start_us": NOON_US + round(start_s * 1e6),
        "end_us": NOON_US + round(end_s * 1e6),
        "actual_step_s": length_s,
        "simulated_step_s": length_s,
        "ideal_step_s": length_s / 2,
    } | more


def answered(steps: Rows, **changes: Any) -> tuple[Rows, dict[str, dict[str, Any]]]:  # noqa: ANN401  # any columns
    """Return rows of role_iteration, and rows of role_effect by role; `changes` set columns of the runs."""
    runs = {(row["job_id"], row["run_id"]): row for row in steps}
    parts = [
        {name: row[name] for name in ("log_date", "job_id", "run_id", "part_of", "role")}
        | {"gpu_hours": 10.0, "lost_fraction": 0.1}
        | changes
        for row in runs.values()
    ]
    found = role_tables(
        pa.Table.from_pylist(steps, TABLES[ROLE_STEP].arrow_schema), pa.Table.from_pylist(parts)
    )
    return found[ROLE_ITERATION].to_pylist(), {row["role"]: row for row in found[ROLE_EFFECT].to_pylist()}


def one_after_the_other(iterations: int = 3) -> Rows:
    """Return iterations of rollout, then reward and critic together, then actor, with gaps of 1 s."""
    rows = []
    for number in range(iterations):
        zero_s = 14.0 * number
        rows += [
            step("rollout", number, zero_s, zero_s + 6),
            step("reward", number, zero_s + 7, zero_s + 8),
            step("critic", number, zero_s + 7, zero_s + 9),
            step("actor", number, zero_s + 10, zero_s + 13),
        ]
    return rows


def test_roles_one_after_the_other() -> None:
    """Of 41 s, halving the rollout saves 9 s, and halving the critic saves 3 s."""
    rows, effects = answered(one_after_the_other())
    assert {role: (row["waits_for"], row["waits_for_before"]) for role, row in effects.items()} == {
        "rollout": ([], ["actor"]),
        "reward": (["rollout"], []),
        "critic": (["rollout"], []),
        "actor": (["critic", "reward"], []),
    }
    assert {round(row["whole_s"], 9) for row in effects.values()} == {41.0}
    saved = {role: row["saved_fraction_if_twice_as_fast"] * 41 for role, row in effects.items()}
    assert saved == pytest.approx({"rollout": 9, "reward": 0, "critic": 3, "actor": 4.5})
    assert effects["rollout"]["saved_fraction_if_ideal"] == pytest.approx(9 / 41)
    assert effects["rollout"]["saved_fraction_if_fixed"] == pytest.approx(1.8 / 41)
    assert effects["rollout"]["saved_gpu_hours_if_twice_as_fast"] == pytest.approx(40 * 9 / 41)
    names = ("waited_for_s", "transition_s", "waiting_s")
    waited_for = {role: tuple(row[name] for name in names) for role, row in effects.items()}
    assert waited_for["rollout"] == pytest.approx((18, 2, 16))
    assert waited_for["reward"] == pytest.approx((0, 0, 26))
    assert waited_for["critic"] == pytest.approx((6, 3, 24))
    assert {row["role"] for row in rows if row["is_waited_for"]} == {"rollout"}
    assert effects["rollout"]["iterations_waited_for"] == 3


def test_a_role_that_runs_ahead_waits_for_itself_alone() -> None:
    """A rollout that runs ahead of the actor waits only for the previous rollout."""
    rows = []
    for number in range(4):
        rows += [
            step("rollout", number, 4.0 * number, 4.0 * number + 4),
            step("actor", number, 4.0 * number + 4, 4.0 * number + 7),
        ]
    _, effects = answered(rows)
    assert (effects["rollout"]["waits_for"], effects["rollout"]["waits_for_before"]) == ([], ["rollout"])
    assert (effects["actor"]["waits_for"], effects["actor"]["waits_for_before"]) == (["rollout"], ["actor"])
    assert effects["actor"]["saved_fraction_if_twice_as_fast"] == pytest.approx(1.5 / 19)
    assert effects["rollout"]["saved_fraction_if_twice_as_fast"] == pytest.approx(5 / 19)


def test_two_runs_of_a_role_and_a_gap_in_the_iterations() -> None:
    """A role with two runs lasts from the first start to the last end; missing iterations take no time."""
    rows = []
    for number, zero_s in ((0, 0.0), (1, 10.0), (7, 100.0)):
        rows += [
            step("actor", number, zero_s, zero_s + 4),
            step("critic", number, zero_s + 5, zero_s + 6),
            step("critic", number, zero_s + 6, zero_s + 7, job_id="critic-2"),
            step("critic", number, zero_s + 8, zero_s + 9, job_id="critic-2"),
        ]
    found, effects = answered(rows)
    assert effects["critic"]["whole_s"] == pytest.approx(19 + 9)
    assert (effects["critic"]["runs"], effects["critic"]["iterations"]) == (2, 3)
    assert effects["critic"]["busy_s"] == pytest.approx(9)
    assert effects["critic"]["saved_fraction_if_twice_as_fast"] == pytest.approx(3 / 28)
    assert [row["waiting_s"] for row in found if row["role"] == "actor"] == [None, pytest.approx(6), None]


def test_nothing_is_said_from_two_iterations_or_without_times() -> None:
    rows, effects = answered(one_after_the_other(2))
    assert rows == []
    assert {(row["whole_s"], row["iterations"], row["gpu_hours"]) for row in effects.values()} == {
        (None, 2, 40.0)
    }
    runs = pa.Table.from_pylist(
        [{"log_date": DAY, "job_id": job, "run_id": "r0", "part_of": "rlhf", "role": role, "gpu_hours": None,
          "lost_fraction": None} for job, role in (("a", "actor"), ("b", None))]
    )  # fmt: skip
    (left_out,) = role_tables(TABLES[ROLE_STEP].arrow_schema.empty_table(), runs)[ROLE_EFFECT].to_pylist()
    assert (left_out["role"], left_out["runs"], left_out["runs_left_out"]) == ("actor", 1, 1)


def test_a_run_that_was_not_analysed_has_no_loss() -> None:
    _, effects = answered(one_after_the_other(), lost_fraction=None, gpu_hours=None)
    assert effects["rollout"]["saved_fraction_if_fixed"] is None
    assert effects["rollout"]["saved_fraction_if_ideal"] == pytest.approx(9 / 41)
    assert effects["rollout"]["saved_gpu_hours_if_ideal"] is None


@pytest.mark.parametrize("early_s", [0.04, 0.06])
def test_clocks_that_differ_by_less_than_the_tolerance(early_s: float) -> None:
    rows = [
        row
        for number in range(3)
        for row in (
            step("actor", number, 10.0 * number, 10.0 * number + 5),
            step("critic", number, 10.0 * number + 5 - early_s, 10.0 * number + 9),
        )
    ]
    _, effects = answered(rows)
    assert effects["critic"]["waits_for"] == (["actor"] if early_s < 0.05 else [])


def test_spans_without_length_at_one_instant() -> None:
    """Two spans without length at the same instant do not wait for each other, and have no result."""
    rows = [step(role, number, number, number) for number in range(3) for role in ("actor", "critic")]
    rows = [row | {"actual_step_s": 1e-9, "step": place} for place, row in enumerate(rows)]
    found, effects = answered(rows)
    assert effects["actor"]["whole_s"] == pytest.approx(2)
    assert sum(row["waited_for_s"] for row in found) == 0
    rows = [row | {"iteration": 2 * row["iteration"]} for row in rows]
    assert answered(rows)[1]["actor"]["whole_s"] is None


def test_steps_without_length_have_nothing_to_save() -> None:
    rows = [step("actor", 1, 10, 10) if row["iteration"] == 1 and row["role"] == "actor" else row
            for row in one_after_the_other()]  # fmt: skip
    _, effects = answered(rows)
    reference = wholes.answer(rows, {(row["job_id"], row["run_id"]): 0.1 for row in rows})
    for role, row in effects.items():
        assert row["saved_fraction_if_ideal"] == pytest.approx(reference.saved[role, "if_ideal"])


def random_whole(seed: int) -> Rows:
    """Draw roles that mostly run in turn; some runs and iterations are missing, and some steps overlap."""
    rng = np.random.default_rng(seed)
    rows: Rows = []
    now_s = 0.0
    names = ["actor", "critic", "reward", "rollout"][: int(rng.integers(1, 5))]
    jobs = [(role, f"{role}-{number}") for role in names for number in range(int(rng.integers(1, 3)))]
    overlaps = rng.random(len(names)) < 0.4
    for iteration in range(int(rng.integers(3, 8))):
        now_s += float(rng.uniform(0, 1))
        if rng.random() < 0.2:
            continue
        for role, can_overlap in zip(names, overlaps, strict=True):
            begin_s = now_s - float(rng.uniform(0, 1)) * can_overlap + float(rng.choice([-0.02, 0.0, 0.3]))
            for job in (job for each, job in jobs if each == role and rng.random() < 0.9):
                at_s = begin_s + float(rng.choice([0.0, 0.25]))
                for _ in range(int(rng.integers(1, 4))):
                    end_s = at_s + float(rng.uniform(0.2, 2))
                    ideal_s = float(rng.uniform(0.5, 1.05)) * (end_s - at_s)
                    number = len(rows)
                    rows.append(
                        step(role, iteration, at_s, end_s, job_id=job, step=number, ideal_step_s=ideal_s)
                    )
                    now_s, at_s = max(now_s, end_s), end_s + float(rng.choice([-0.1, 0.0, 0.2]))
    return rows


@pytest.mark.parametrize("seed", range(60))
def test_random_wholes_beside_the_reference(seed: int) -> None:
    rows = random_whole(seed)
    iterations, effects = answered(rows)
    if len({row["iteration"] for row in rows}) < 3:
        assert iterations == []
        return
    reference = wholes.answer(rows, {(row["job_id"], row["run_id"]): 0.1 for row in rows})
    for role, row in effects.items():
        assert row["whole_s"] == pytest.approx(reference.whole_s, rel=1e-11)
        for (of_role, name), saved in reference.saved.items():
            if of_role == role:
                assert row[f"saved_fraction_{name}"] == pytest.approx(saved, abs=1e-11)
        assert set(row["waits_for"]) <= reference.waits_for[role]
        assert set(row["waits_for_before"]) <= reference.waits_for_before[role]
    for row in iterations:
        span = row["role"], row["iteration"]
        assert row["busy_s"] == pytest.approx(reference.busy_s[span], abs=1e-9)
        assert row["waited_for_s"] == pytest.approx(reference.waited_for_s.get(span, 0.0), abs=1e-9)
        gap_s = reference.gap_s.get(span)
        assert row["transition_s"] == (None if gap_s is None else pytest.approx(gap_s, abs=1e-9))
    on_path = sum(row["waited_for_s"] + row["transition_s"] for row in effects.values())
    assert on_path == pytest.approx(reference.whole_s, abs=1e-9)
