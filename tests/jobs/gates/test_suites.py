"""Test a team's own Great Expectations suites: found in a folder, and run on the rows of a phase."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs.gates import suites
from jobs.gates.checks import GateError, GateRefusedError, Rule
from jobs.gates.quality_docs import Page, html, table_checks
from jobs.gates.suites import Suites, read_suites
from jobs.gates.write_audit_publish import refused_path
from jobs.night.phase_run import PhaseRun
from jobs.runtime.settings import Settings, SettingsError
from jobs.warehouse.rows import Rows, StagedRows
from jobs.warehouse.staging import Staging
from jobs.warehouse.tables import Warehouse
from schemas.vocabulary import JOB_SLOWDOWN, REJECTS, Phase
from tests.support.examples import DAY, table_rows

WRITES = """
import sys
import great_expectations as gx
import great_expectations.expectations as gxe

context = gx.get_context(mode="file", project_root_dir=sys.argv[1])
context.suites.add(gx.ExpectationSuite(name="job_slowdown", expectations=[
    gxe.ExpectColumnValuesToBeBetween(column="ops", max_value=850, mostly=0.6, description="fast"),
    gxe.ExpectColumnValuesToMatchRegex(column="run_id", regex="^r", severity="warning"),
    gxe.ExpectTableRowCountToBeBetween(min_value=4, severity="info"),
]))
"""
UNITS: list[dict[str, Any]] = [{"run_id": "r1", "ops": 900}, {"run_id": "2", "ops": 900}, {"run_id": "r3"}]


def suite(folder: Path, *expectations: dict[str, Any], **changes: object) -> str:
    """Write a suite for job_slowdown to the file mine.json of a folder, and return the folder."""
    stated = {"name": JOB_SLOWDOWN, "expectations": expectations} | changes
    (folder / "mine.json").write_text(json.dumps(stated))
    return str(folder)


def between(column: str = "slowdown", **kwargs: object) -> dict[str, Any]:
    return {"type": "expect_column_values_to_be_between", "kwargs": {"column": column, **kwargs}}


OF_SHARES = {
    "type": "expect_column_kl_divergence_to_be_less_than",
    "kwargs": {
        "column": "status",
        "partition_object": {"values": ["analysed"], "weights": [1.0]},
        "threshold": 0.1,
    },
}
"""An expectation for which Great Expectations imports a further package when it is evaluated."""


def own(folder: str, phase: str = Phase.SIMULATE, **tables: Rows) -> list[Rule]:
    """Return the results of the suite mine.json alone, whatever other suites are in the folder."""
    return [rule for rule in Suites(folder, phase).rules(tables) if "mine.json" in rule.section]


@pytest.mark.slow
def test_a_suite_that_great_expectations_wrote_refuses_warns_and_stands_in_the_docs(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", WRITES, str(tmp_path)], check=True, capture_output=True)
    found = Suites(str(tmp_path / "gx" / "expectations"), Phase.SIMULATE)
    rules = found.rules({JOB_SLOWDOWN: table_rows(JOB_SLOWDOWN, UNITS)})[-3:]
    assert [(rule.name, rule.severity, rule.rows.num_rows) for rule in rules] == [
        ("expect_column_values_to_be_between.ops", "refuses", 2),
        ("expect_column_values_to_match_regex.run_id", "warns", 1),
        ("expect_table_row_count_to_be_between", "warns", 1),
    ]


def test_a_suite_refuses_its_phase_and_what_it_refused_is_kept(
    spark: SparkSession, test_settings: Settings, tmp_path: Path
) -> None:
    folder = suite(tmp_path, between("ops", max_value=850, mostly=0.6), between("steps", min_value=11))
    settings = test_settings.model_copy(
        update={
            "gates": test_settings.gates.model_copy(update={"suites": folder}),
            "paths": test_settings.paths.model_copy(update={"warehouse": str(tmp_path / "warehouse")}),
        }
    )
    phase = PhaseRun(Phase.SIMULATE, spark, settings, [DAY])
    with pytest.raises(GateRefusedError) as raised:
        phase.publish({JOB_SLOWDOWN: table_rows(JOB_SLOWDOWN, UNITS)})
    named = [f"job_slowdown.expect_column_values_to_be_between.{each}" for each in ("ops", "steps")]
    assert [(each.name, each.rows, each.log_dates) for each in raised.value.refusals] == [
        (named[0], 2, (DAY,)),
        (named[1], 3, (DAY,)),
    ]
    kept = Path(refused_path(settings.paths.warehouse, "simulate", [DAY]))
    assert {each.name for each in kept.iterdir()} == {name.partition(".")[2] for name in named}
    assert not Warehouse.of(spark, settings).exists(JOB_SLOWDOWN)


def test_ours_is_readable_passes_good_units_and_says_its_seconds() -> None:
    rows = table_rows(
        JOB_SLOWDOWN, [{"run_id": "1", "discrepancy": 0.001}, {"run_id": "2", "discrepancy": 0.002}]
    )
    rules = Suites(None, Phase.SIMULATE).rules({JOB_SLOWDOWN: rows})
    assert len(rules) == 4
    assert not any(rule.rows.num_rows for rule in rules)
    assert {rule.severity for rule in rules} == {"warns"}
    page = Page("simulate", [DAY], "/w", table_checks({}, [*rules, Rule("odd", rows)], []))
    assert [table.table.partition(", run by")[0] for table in page.tables] == [
        "suite job_slowdown.json",
        "rules across rows and tables",
    ]
    assert "run by Great Expectations in" in html(page)


def test_rows_in_files_and_equal_expectations_are_judged(tmp_path: Path) -> None:
    folder = tmp_path / "suites"
    folder.mkdir()
    staging = Staging(str(tmp_path), "run")
    staging.write(REJECTS, (("log_date", DAY.isoformat()),), table_rows(REJECTS, [{}, {"line": 4}]))
    rows = StagedRows(REJECTS, staging.close(), str(tmp_path))
    older = between("line", max_value=1) | {"meta": {"severity": "warning"}}
    suite(folder, between("line", max_value=3), older, name="for us", meta={"table": REJECTS})
    rules = own(str(folder), Phase.INGEST, rejects=rows)
    assert [(rule.name[-6:], rule.severity, rule.rows["line"].to_pylist()) for rule in rules] == [
        ("n.line", "refuses", [4]),
        ("line-2", "warns", [3, 4]),
    ]
    assert own(str(folder), Phase.INGEST, rejects=table_rows(REJECTS, [])) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"expectation": []}, "mine.json: expectation: unknown key"),
        (
            {"name": "job_slowdwn"},
            "mine.json: name: no table is named 'job_slowdwn': did you mean job_slowdown",
        ),
        ({"meta": {"table": "x"}}, "mine.json: meta.table: no table is named 'x'"),
        ({"expectations": [{"kwargs": {}}]}, "mine.json: expectations.0.type: missing key"),
        (
            {"expectations": [between(severity=1) | {"severity": "bad"}]},
            "mine.json: expectations.0.severity: ",
        ),
        (
            {"expectations": [between(min_value=1), between("slowdwn")]},
            "mine.json: expectations.1.kwargs.column: job_slowdown has no column 'slowdwn': did you mean",
        ),
    ],
)
def test_a_wrong_suite_is_one_line_with_file_and_key(
    tmp_path: Path, content: dict[str, Any], message: str
) -> None:
    suite(tmp_path, **content)
    with pytest.raises(SettingsError) as raised:
        read_suites(str(tmp_path))
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("expectation", "error", "message"),
    [
        (
            {"type": "expect_luck"},
            SettingsError,
            "expectations.0.type: Great Expectations has no expect_luck",
        ),
        (between(min_value=1, odd=2), SettingsError, "expectations.0.kwargs.odd: extra fields not permitted"),
        (
            {"type": "expect_column_mean_to_be_between", "kwargs": {"column": "job_id", "min_value": 1}},
            GateError,
            "expectations.0 (expect_column_mean_to_be_between) could not be evaluated: ",
        ),
    ],
)
def test_what_great_expectations_cannot_run_is_no_pass(
    tmp_path: Path, expectation: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as raised:
        own(suite(tmp_path, expectation), job_slowdown=table_rows(JOB_SLOWDOWN))
    assert f"mine.json: {message}" in str(raised.value)


def test_a_process_that_ends_is_no_pass_and_the_next_suite_gets_another(tmp_path: Path) -> None:
    suites._process().kill()
    with pytest.raises(GateError, match="the process that runs suites ended: -9"):
        Suites(None, Phase.SIMULATE).rules({JOB_SLOWDOWN: table_rows(JOB_SLOWDOWN)})
    found = own(suite(tmp_path, between(min_value=1), OF_SHARES), job_slowdown=table_rows(JOB_SLOWDOWN))
    assert [rule.rows.num_rows for rule in found] == [0, 0]


def test_folders_that_have_no_suite_and_installs_without_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SettingsError, match=r"gates.suites: .* contains no suite, which is a file \*\.json"):
        read_suites(str(tmp_path))
    (tmp_path / "mine.json").write_text("{")
    with pytest.raises(SettingsError, match=r"mine.json: Invalid JSON"):
        read_suites(str(tmp_path))
    with pytest.raises(SettingsError, match=r"gates.suites: .* does not exist"):
        read_suites(str(tmp_path / "none"))
    monkeypatch.setattr(suites, "find_spec", lambda _: None)
    assert read_suites(None) == []
    with pytest.raises(SettingsError, match=r"gates.suites: .*pip install 'straggler-fleet\[gates\]'"):
        read_suites(str(tmp_path))
