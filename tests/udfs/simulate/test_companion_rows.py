"""Rows of job_causes have names, ranks, hosts and GPU-hours in place of the kernel's numeric codes."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from schemas.causes import FLAG_REASONS, IN_SECONDS
from schemas.vocabulary import (
    CAUSES,
    CULPRIT_COURSES,
    CULPRIT_REACHES,
    EVIDENCE_KEYS,
    JOB_BASELINE,
    JOB_CAUSES,
)
from tests.support.diagnoses import DIAGNOSIS, PAUSED, SLOW_HOST, cause, unit_rows
from tests.udfs.lines import manifest, rank_steps
from udfs.kernel import cause as kernel
from udfs.kernel import what_if as kernel_what_if
from udfs.kernel.cause import ALWAYS, Culprit, Diagnosis, Evidence
from udfs.what_if import simulate_job

LAYOUT = manifest(dp_size=2, pp_size=2)
MIDNIGHT_US = 1_767_571_200_000_000
"""Unix time of 2026-01-05, 00:00 UTC. [us]"""
DP_1 = [{"pp_rank": stage, "dp_rank": 1, "rank": 100 + stage, "host": f"node-1{stage}"} for stage in range(2)]


def causes(
    monkeypatch: pytest.MonkeyPatch,
    diagnosis: Diagnosis = DIAGNOSIS,
    rows: pa.Table | None = None,
    **facts: float,
) -> dict[str, dict[str, Any]]:
    """Return rows of job_causes, by cause, for a unit for which the kernel returns `diagnosis`."""
    monkeypatch.setattr(kernel_what_if, "diagnose", lambda found: diagnosis)
    table = simulate_job(rank_steps(*unit_rows()) if rows is None else rows, LAYOUT | facts)[JOB_CAUSES]
    return {row["cause"]: row for row in table.to_pylist(maps_as_pydicts="strict")}


def test_codes_of_the_kernel_are_positions_in_the_vocabulary() -> None:
    assert [getattr(kernel, cause.upper()) for cause in CAUSES] == list(range(kernel.COUNT))
    assert [CAUSES[code] for code in kernel.IN_SECONDS] == list(IN_SECONDS)
    for names in (CULPRIT_COURSES, CULPRIT_REACHES):
        assert [getattr(kernel, name.upper()) for name in names] == list(range(len(names)))
    assert Evidence._fields == EVIDENCE_KEYS
    spelled = {
        "slow_worker_or_stage_imbalance": "WORKER_OR_STAGE",
        "slow_worker_or_data_imbalance": "WORKER_OR_DATA",
        "many_slow_workers": "MANY_SLOW_CELLS",
        "mixed_hardware_or_stage_imbalance": "TYPE_OR_STAGE",
        "mixed_hardware_or_slow_worker": "TYPE_OR_WORKER",
    }
    codes = [getattr(kernel, spelled.get(reason, reason.upper())) for reason in FLAG_REASONS]
    assert codes == list(range(kernel.NO_FLAG + 1, len(FLAG_REASONS) + 1))


def test_every_cause_has_its_row_and_its_fractions_as_they_came(monkeypatch: pytest.MonkeyPatch) -> None:
    found = causes(monkeypatch)
    assert tuple(found) == CAUSES
    saved = {name: row["time_saved_fraction"] for name, row in found.items() if row["time_saved_fraction"]}
    assert list(saved.values()) == [0.25, 0.125, -0.0625, 0.03125, 0.015625, 0.0625]
    assert list(saved)[-2:] == ["launch_delay", "unexplained"]
    present = [name for name, row in found.items() if row["is_cause"]]
    assert present == ["slow_worker", "stage_imbalance", "pause", "unexplained"]
    total = sum(row["attributed_fraction"] for row in found.values())
    assert total == DIAGNOSIS.all_fixes_fraction, "the unexplained part has no share of the savings"
    assert {row["recoverable_gpu_hours"] for row in found.values()} == {None}, "hours are not known"
    assert {row["attributed_gpu_hours"] for row in found.values()} == {None}


def test_gpu_hours_are_those_of_the_unit_times_the_fractions(monkeypatch: pytest.MonkeyPatch) -> None:
    found = causes(monkeypatch, gpu_hours=64)
    hours = [(row["recoverable_gpu_hours"], row["attributed_gpu_hours"]) for row in found.values()]
    assert [each for each in hours if any(each)] == [
        (16.0, 12.0), (8.0, 4.0), (-4.0, -2.0), (2.0, 2.0), (1.0, 1.0), (4.0, 0.0),
    ]  # fmt: skip


def test_a_flagged_row_keeps_estimate_label_and_culprits(monkeypatch: pytest.MonkeyPatch) -> None:
    found = causes(monkeypatch)
    flags = {name: row["flag_reason"] for name, row in found.items() if row["flag_reason"] is not None}
    assert flags == {
        "stage_imbalance": "few_peers",
        "communication": "no_usual_transfer",
        "unexplained": "mostly_unexplained",
    }
    flagged = found["stage_imbalance"]
    assert (flagged["is_cause"], flagged["time_saved_fraction"], len(flagged["culprits"])) == (True, 0.125, 1)


def test_culprits_are_workers_stages_and_dp_ranks_worst_first(monkeypatch: pytest.MonkeyPatch) -> None:
    found = causes(monkeypatch)
    cell, replica = found["slow_worker"]["culprits"]
    assert cell == {
        "pp_rank": 1, "dp_rank": 0, "rank": 1, "host": "node-01",
        "effect": 0.5, "lost_s": 0.125, "share_of_steps": 0.25, "pattern": "intermittent",
        "direction": "backward", "course": "comes_and_goes",
        "first_step": 3, "last_step": 6, "first_time": None, "last_time": None,
        "reach": "worker", "slow_host": None, "slow_rack": None, "workers": [],
    }  # fmt: skip
    no_worker = {"pp_rank": None, "dp_rank": None, "rank": None, "host": None, "slow_host": None}
    always = {"share_of_steps": 1.0, "pattern": "always", "course": "always", "first_step": 0, "last_step": 9}
    of_replica = {"dp_rank": 1, "effect": 0.125, "direction": "both", "reach": "replica", "workers": DP_1}
    assert replica == replica | no_worker | always | of_replica
    (stage,) = found["stage_imbalance"]["culprits"]
    assert stage == stage | no_worker | always | {
        "pp_rank": 1,
        "effect": 0.25,
        "reach": "stage",
        "lost_s": None,
    }
    (paused,) = found["pause"]["culprits"]
    assert paused == paused | {"rank": 100, "host": "node-10", "effect": 1.5, "share_of_steps": 0.125}
    assert paused == paused | {"pattern": "once", "first_step": 7, "last_step": 7, "direction": "forward"}
    assert found["communication"]["culprits"] == []


def test_a_slow_host_is_named_once_with_its_workers_and_since_when(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow host is one culprit, with its workers and the time from which on it is slow."""
    slow = cause(0.25, 0.25, SLOW_HOST)
    diagnosis = DIAGNOSIS._replace(causes=(slow, *DIAGNOSIS.causes[1:]))
    rows = [
        row | {"host": f"node-{row['dp_rank']}", "t0_us": MIDNIGHT_US + row["step"] * 60_000_000}
        for row in unit_rows()
    ]
    (host,) = causes(monkeypatch, diagnosis, rank_steps(*rows))["slow_worker"]["culprits"]
    no_worker = {"pp_rank": None, "dp_rank": None, "rank": None, "host": None}
    workers = [worker | {"host": "node-1"} for worker in DP_1]
    assert host == host | no_worker | {"reach": "host", "slow_host": "node-1", "workers": workers}
    assert host == host | {"direction": "optimizer", "course": "from", "pattern": "intermittent"}
    assert (host["first_step"], host["last_step"], host["lost_s"]) == (5, 9, None)
    midnight = datetime(2026, 1, 5, tzinfo=UTC)
    assert host["first_time"] == midnight + timedelta(minutes=5)
    assert host["last_time"] == midnight + timedelta(minutes=9)


def test_a_slow_host_is_as_slow_as_its_slowest_worker_that_always_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """In job_baseline, a host is as slow as the slowest of its workers that are slow in all steps."""
    always = [Culprit(stage, 0, effect, 1.0, 0, 9, ALWAYS) for stage, effect in ((1, 0.5), (0, 0.25))]
    slow = cause(0.25, 0.25, *always, PAUSED)
    diagnosis = DIAGNOSIS._replace(causes=(slow, *DIAGNOSIS.causes[1:]))
    monkeypatch.setattr(kernel_what_if, "diagnose", lambda found: diagnosis)
    rows = [row | {"host": f"node-{row['dp_rank']}"} for row in unit_rows()]
    (baseline,) = simulate_job(rank_steps(*rows), LAYOUT)[JOB_BASELINE].to_pylist()
    assert baseline["slow_hosts"] == [{"host": "node-0", "effect": 0.5}]


def test_a_log_without_hosts_names_the_rank_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    without_values = rank_steps(*(row | {"host": None} for row in unit_rows()))
    for rows in (without_values, without_values.drop_columns("host")):
        culprit = causes(monkeypatch, rows=rows)["slow_worker"]["culprits"][0]
        assert (culprit["rank"], culprit["host"]) == (1, None)


def test_evidence_has_no_keys_for_numbers_that_do_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    found = causes(monkeypatch)
    assert found["slow_worker"]["evidence"] == {
        "effect": 0.5,
        "standard_error": 0.01,
        "peers": 1.0,
        "samples": 64.0,
        "indicator": 1.22,
    }
    assert found["stage_imbalance"]["evidence"] == {"effect": 0.25, "peers": 1.0, "samples": 64.0}
    assert found["pause"]["evidence"] == {}


def test_what_fixes_save_and_what_is_unexplained_make_up_the_loss() -> None:
    """Savings of fixes and the unexplained loss add up to the whole loss, 1/11 of the step time."""
    twice = ("start_us", "duration_us")
    usual = [row | {"host": "node-0"} for row in unit_rows()]
    slow = [row | {name: [2 * each for each in row[name]] for name in twice} for row in usual[:4]]
    found = simulate_job(rank_steps(*usual[4:], *slow), LAYOUT | {"gpu_hours": 64.0})[JOB_CAUSES]
    rows = found.to_pylist()
    fixed = sum(row["attributed_fraction"] for row in rows)
    assert fixed + rows[-1]["time_saved_fraction"] == pytest.approx(1 / 11, abs=1e-12)
    assert rows[-1]["time_saved_fraction"] > 0.025, "no cause makes all workers slow in one step"
    assert sum(row["lost_fraction"] for row in rows) == pytest.approx(1 / 11, abs=1e-12)
    assert sum(row["lost_gpu_hours"] for row in rows) == pytest.approx(64 / 11, abs=1e-9)


def test_a_worker_that_moved_is_named_with_the_host_of_its_slow_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moved = [row | {"host": "spare"} if row["step"] >= 3 and row["rank"] == 1 else row for row in unit_rows()]
    found = causes(monkeypatch, rows=rank_steps(*moved))["slow_worker"]["culprits"]
    assert (found[0]["rank"], found[0]["host"]) == (1, "spare")


def test_a_worker_of_several_hosts_while_it_was_slow_blames_none(monkeypatch: pytest.MonkeyPatch) -> None:
    moved = [row | {"host": "spare"} if row["step"] >= 5 and row["rank"] == 1 else row for row in unit_rows()]
    table = rank_steps(*moved)
    found = causes(monkeypatch, rows=table)["slow_worker"]["culprits"]
    assert (found[0]["rank"], found[0]["host"]) == (1, None)
    hosts = {row["rank"]: row["host"] for row in simulate_job(table, LAYOUT)["worker_slowdown"].to_pylist()}
    assert hosts == {0: "node-00", 1: None, 100: "node-10", 101: "node-11"}


def test_one_stale_line_names_no_other_host(monkeypatch: pytest.MonkeyPatch) -> None:
    stale = [row | {"host": "old"} if row["step"] == 0 and row["rank"] == 1 else row for row in unit_rows()]
    table = rank_steps(*stale)
    hosts = {row["rank"]: row["host"] for row in simulate_job(table, LAYOUT)["worker_slowdown"].to_pylist()}
    assert hosts[1] == "node-01"
    assert causes(monkeypatch, rows=table)["slow_worker"]["culprits"][0]["host"] == "node-01"
