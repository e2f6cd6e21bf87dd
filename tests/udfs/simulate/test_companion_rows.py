"""Rows of job_causes: codes become names, cells become ranks and hosts, fractions become GPU-hours."""

from typing import Any

import pyarrow as pa
import pytest

from schemas.vocabulary import CAUSES, CULPRIT_PATTERNS, EVIDENCE_KEYS, FLAG_REASONS, JOB_BASELINE, JOB_CAUSES
from tests.support.diagnoses import DIAGNOSIS, PAUSED, cause, unit_rows
from tests.udfs.lines import manifest, rank_steps
from udfs.kernel import cause as kernel
from udfs.kernel import what_if as kernel_what_if
from udfs.kernel.cause import ALWAYS, Culprit, Diagnosis, Evidence
from udfs.what_if import simulate_job

LAYOUT = manifest(dp_size=2, pp_size=2)


def causes(
    monkeypatch: pytest.MonkeyPatch,
    diagnosis: Diagnosis = DIAGNOSIS,
    rows: pa.Table | None = None,
    **facts: float,
) -> dict[str, dict[str, Any]]:
    """Rows of job_causes by cause, of a unit of which the kernel found this diagnosis."""
    monkeypatch.setattr(kernel_what_if, "diagnose", lambda blocks, job: diagnosis)
    table = simulate_job(rank_steps(*unit_rows()) if rows is None else rows, LAYOUT | facts)[JOB_CAUSES]
    return {row["cause"]: row for row in table.to_pylist(maps_as_pydicts="strict")}


def test_codes_of_the_kernel_are_positions_in_the_vocabulary() -> None:
    assert [getattr(kernel, cause.upper()) for cause in CAUSES] == list(range(kernel.COUNT))
    assert [getattr(kernel, pattern.upper()) for pattern in CULPRIT_PATTERNS] == [0, 1, 2]
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
    saved = [row["time_saved_fraction"] for row in found.values()]
    assert saved == [0.25, 0.125, -0.0625, 0.03125, 0.0, 0.015625, 0.0, 0.0, 0.0625]
    present = [name for name, row in found.items() if row["is_cause"]]
    assert present == ["slow_worker", "stage_imbalance", "pause", "unexplained"]
    total = sum(row["attributed_fraction"] for row in found.values())
    assert total == DIAGNOSIS.all_fixes_fraction, "what is unexplained has no share of what fixes save"
    assert {row["recoverable_gpu_hours"] for row in found.values()} == {None}, "hours are not known"
    assert {row["attributed_gpu_hours"] for row in found.values()} == {None}


def test_gpu_hours_are_those_of_the_unit_times_the_fractions(monkeypatch: pytest.MonkeyPatch) -> None:
    found = causes(monkeypatch, gpu_hours=64)
    recoverable = [16.0, 8.0, -4.0, 2.0, 0.0, 1.0, 0.0, 0.0, 4.0]
    attributed = [12.0, 4.0, -2.0, 2.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    assert [row["recoverable_gpu_hours"] for row in found.values()] == recoverable
    assert [row["attributed_gpu_hours"] for row in found.values()] == attributed


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
    no_culprit = {"pp_rank": None, "dp_rank": None, "rank": None, "host": None}
    always = {"share_of_steps": 1.0, "pattern": "always"}
    cell = {"pp_rank": 1, "dp_rank": 0, "rank": 1, "host": "node-01"}
    assert found["slow_worker"]["culprits"] == [
        cell | {"effect": 0.5, "share_of_steps": 0.25, "pattern": "intermittent"},
        no_culprit | {"dp_rank": 1, "effect": 0.125} | always,
    ]
    assert found["stage_imbalance"]["culprits"] == [no_culprit | {"pp_rank": 1, "effect": 0.25} | always]
    paused = {"pp_rank": 0, "dp_rank": 1, "rank": 100, "host": "node-10"}
    assert found["pause"]["culprits"] == [paused | {"effect": 1.5, "share_of_steps": 0.5, "pattern": "once"}]
    assert found["communication"]["culprits"] == []


def test_a_slow_host_is_as_slow_as_its_slowest_worker_that_always_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is what jobs of other days know it by; a worker that is slow once says nothing of its host."""
    always = [Culprit(stage, 0, effect, 1.0, ALWAYS) for stage, effect in ((1, 0.5), (0, 0.25))]
    slow = cause(0.25, 0.25, *always, PAUSED)
    diagnosis = DIAGNOSIS._replace(causes=(slow, *DIAGNOSIS.causes[1:]))
    monkeypatch.setattr(kernel_what_if, "diagnose", lambda blocks, job: diagnosis)
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
    """One step in ten takes twice as long."""
    slow = [row | {"duration_us": [2 * each for each in row["duration_us"]]} for row in unit_rows()[:4]]
    tables = simulate_job(rank_steps(*unit_rows()[4:], *slow), LAYOUT)
    (job,) = tables["job_slowdown"].to_pylist()
    found = tables[JOB_CAUSES].to_pylist()
    explained = sum(row["attributed_fraction"] for row in found)
    assert explained > 0.05
    lost = (job["simulated_step_s"] - job["ideal_step_s"]) / job["actual_step_s"]
    assert explained + found[-1]["time_saved_fraction"] == pytest.approx(lost, abs=1e-12)
