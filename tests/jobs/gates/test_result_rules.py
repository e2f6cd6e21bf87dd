"""Test the rules that compare result tables with each other: results that break one are refused."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from jobs.gates.checks import GateError, Rule
from jobs.gates.result_rules import (
    incomplete_units,
    miscounted_causes,
    miscounted_loss,
    miscounted_units,
    units_of_more_than_all,
    units_of_other_gpu_hours,
    units_of_other_loss,
    units_of_other_schedule,
    units_of_other_types,
    units_without_result,
)
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import (
    CAUSE_DAY,
    CAUSE_MIXED_HARDWARE,
    CAUSES,
    FLEET_DAY,
    GPU_TYPE_SLOWDOWN,
    JOB_CAUSES,
    JOB_SLOWDOWN,
    JOB_TIME,
    JOBS,
    LOGGED_CAUSES,
    OP_TYPE_SLOWDOWN,
    RANK_STEPS,
    REPLAY_TABLES,
)
from tests.support.diagnoses import DIAGNOSIS, unit_rows
from tests.support.examples import DAY, NEXT_DAY, table_rows
from tests.udfs.lines import manifest
from udfs.kernel import what_if
from udfs.simulate.unit_batches import (
    SIMULATED_COLUMNS,
    Results,
    UnitRows,
    results_batches,
    results_of,
    simulate_unit,
)
from udfs.what_if import SimulationSettings

LAYOUT = manifest(dp_size=2, pp_size=2)
COLUMNS = [TABLES[RANK_STEPS].arrow_schema.field(name) for name in SIMULATED_COLUMNS]


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch) -> Results:
    """Simulated results of three units: "a" with GPU-hours, "b" without, and "c" not replayed."""
    monkeypatch.setattr(what_if, "diagnose", lambda found: DIAGNOSIS)
    facts: dict[str, dict[str, Any]] = {
        "a": LAYOUT | {"gpu_hours": 64.0},
        "b": LAYOUT,
        "c": LAYOUT | {"restarts": 99},
    }
    table = pa.Table.from_pylist(unit_rows(), pa.schema(COLUMNS))
    units = [UnitRows(Unit(DAY, job_id, "r3"), each, table) for job_id, each in facts.items()]
    settings = SimulationSettings()
    shell = results_batches(lambda _: ((unit.key, simulate_unit(unit, settings)) for unit in units))
    return results_of(shell([]))


def found(rule: Rule) -> set[str]:
    return set(rule.rows.column("job_id").to_pylist())


@pytest.mark.parametrize("name", REPLAY_TABLES)
def test_a_unit_that_lacks_a_row_is_incomplete(results: Results, name: str) -> None:
    assert found(incomplete_units(results)) == set()
    table = results[name]
    firsts = {table.column("job_id").index(job_id).as_py() for job_id in "abc"} - {-1}
    lacking = table.filter(pa.array([place not in firsts for place in range(table.num_rows)]))
    expected = set() if name == OP_TYPE_SLOWDOWN else {"a", "b"}  # no other table lists a unit's op types
    assert found(incomplete_units(results | {name: lacking})) == expected


def test_a_unit_that_was_not_replayed_has_one_row_alone(results: Results) -> None:
    causes = results[JOB_CAUSES]
    made_up = causes.slice(0, 1).set_column(1, "job_id", pa.array(["c"]))
    both = pa.concat_tables([causes, made_up])
    assert found(incomplete_units(results | {JOB_CAUSES: both})) == {"c"}


@pytest.mark.parametrize(
    ("name", "change", "units"),
    [
        ("attributed_gpu_hours", lambda hours: pc.add(hours, 1e-9), {"a"}),
        ("recoverable_gpu_hours", lambda hours: pc.subtract(hours, 1e-9), {"a"}),
        ("attributed_gpu_hours", lambda hours: pc.multiply(hours, pa.scalar(None, pa.float64())), {"a"}),
        ("attributed_gpu_hours", lambda hours: pc.fill_null(hours, 1.0), {"b"}),
        ("lost_gpu_hours", lambda hours: pc.fill_null(hours, 1.0), {"a", "b"}),
    ],
)
def test_hours_of_a_cause_are_those_of_its_unit(
    results: Results,
    name: str,
    change: Any,  # noqa: ANN401  # one of the lambdas above
    units: set[str],
) -> None:
    assert found(units_of_other_gpu_hours(results)) == set()
    causes = results[JOB_CAUSES]
    place = causes.column_names.index(name)
    changed = causes.set_column(place, name, change(causes.column(name)))
    assert found(units_of_other_gpu_hours(results | {JOB_CAUSES: changed})) == units


def test_causes_of_an_analysed_unit_lose_what_all_fixes_save_and_others_nothing(results: Results) -> None:
    assert found(units_of_other_loss(results)) == set()
    jobs = results[JOB_SLOWDOWN]
    assert set(jobs["status"].to_pylist()) == {"unknown_clocks", "too_many_restarts"}
    analysed = pa.array(["analysed"] * jobs.num_rows)
    accepted = jobs.set_column(jobs.column_names.index("status"), "status", analysed)
    assert found(units_of_other_loss(results | {JOB_SLOWDOWN: accepted})) == {"a", "b"}


def test_what_is_unexplained_is_lost_too_but_of_units_that_an_earlier_version_simulated() -> None:
    lost = {"new": 0.375, "of 0.3.0": 0.125, "wrong": 0.25}
    unexplained = {"cause": "unexplained", "attributed_fraction": 0.0, "time_saved_fraction": 0.25}
    rows = [
        row | {"job_id": name}
        for name, fraction in lost.items()
        for row in ({"lost_fraction": 0.125}, unexplained | {"lost_fraction": fraction - 0.125})
    ]
    jobs = table_rows(JOB_SLOWDOWN, [{"job_id": name} for name in lost])
    assert found(units_of_other_loss({JOB_CAUSES: table_rows(JOB_CAUSES, rows), JOB_SLOWDOWN: jobs})) == {
        "wrong"
    }


@pytest.mark.parametrize(
    ("changes", "breaks"),
    [
        ({}, False),
        ({"attributed_fraction": -1.0}, False),
        ({"recoverable_gpu_hours": -500.0}, False),
        ({"attributed_fraction": 0.5}, True),
        ({"lost_fraction": 1.1}, True),
        ({"recoverable_gpu_hours": 192.1}, True),
    ],
)
def test_causes_of_a_unit_lose_at_most_the_unit(changes: dict[str, float], breaks: bool) -> None:
    """A rule refuses units of which one cause, or all causes together, lose more time than the unit took."""
    causes: list[dict[str, Any]] = [changes | {"cause": CAUSES[0]}, {"cause": CAUSES[1]}]
    tables = {JOB_CAUSES: table_rows(JOB_CAUSES, causes), JOB_SLOWDOWN: table_rows(JOB_SLOWDOWN, [{}])}
    assert bool(units_of_more_than_all(tables).rows.num_rows) is breaks


def test_a_day_loses_what_its_causes_lose() -> None:
    causes = [{"cause": cause, "lost_gpu_hours": 4.0, "lost_s": 2.0} for cause in CAUSES]
    whole = {"lost_gpu_hours": 4.0 * len(CAUSES), "lost_s": 2.0 * len(CAUSES)}
    tables = {CAUSE_DAY: table_rows(CAUSE_DAY, causes)}
    assert not miscounted_loss(tables | {FLEET_DAY: table_rows(FLEET_DAY, [whole])}).rows
    for name in whole:
        wrong = miscounted_loss(tables | {FLEET_DAY: table_rows(FLEET_DAY, [whole | {name: 1.0}])})
        assert wrong.rows["log_date"].to_pylist() == [DAY]


def test_a_rule_that_cannot_be_evaluated_says_which_and_over_what(results: Results) -> None:
    lacking = results | {JOB_CAUSES: results[JOB_CAUSES].drop_columns(["attributed_gpu_hours"])}
    message = (
        "rule job_causes.causes_share_the_gpu_hours_of_the_unit .* could not be evaluated over job_slowdown, "
    )
    with pytest.raises(GateError, match=f'{message}.*"attributed_gpu_hours"'):
        units_of_other_gpu_hours(lacking)


def test_time_is_shared_of_the_gpu_hours_that_the_unit_has_and_no_others(results: Results) -> None:
    assert found(units_of_other_schedule(results)) == set()
    hours = [{"log_date": DAY, "job_id": name, "scheduled_gpu_hours": 64.0} for name in "abc"]
    assert found(units_of_other_schedule(results | {JOB_TIME: table_rows(JOB_TIME, hours)})) == {"b", "c"}


def test_types_of_gpu_have_all_workers_and_what_their_cause_saves() -> None:
    """A rule refuses units whose rows by GPU type lack workers, or contradict the cause mixed_hardware."""
    types: list[dict[str, Any]] = [
        {"job_id": name, "gpu_type": kind} for name in "abcef" for kind in ("H100", "A100")
    ]
    types[4]["workers"] = 3
    types[2]["time_saved_fraction"] = types[3]["time_saved_fraction"] = None
    types[9]["time_saved_fraction"] = 0.5
    causes = [{"job_id": name, "cause": CAUSE_MIXED_HARDWARE} for name in "abcdf"]
    tables = {
        GPU_TYPE_SLOWDOWN: table_rows(GPU_TYPE_SLOWDOWN, types),
        JOB_CAUSES: table_rows(JOB_CAUSES, [*causes, {"job_id": "g"}]),
        JOB_SLOWDOWN: table_rows(JOB_SLOWDOWN, [{"job_id": name, "workers": 8} for name in "abcdefg"]),
    }
    assert found(units_of_other_types(tables)) == {"c", "d", "e", "f"}


def test_units_lost_and_units_made_up_have_no_result_of_their_own() -> None:
    def rows(table: str, names: str) -> pa.Table:
        return table_rows(table, [{"job_id": name} for name in names])

    results = {JOB_SLOWDOWN: rows(JOB_SLOWDOWN, "bc")}
    assert found(units_without_result(results | {JOBS: rows(JOBS, "bc")})) == set()
    assert found(units_without_result(results | {JOBS: rows(JOBS, "ab")})) == {"a", "c"}


def test_miscounted_causes_are_those_that_job_causes_and_the_fleet_do_not_bear_out() -> None:
    def wrong(changes: dict[int, dict[str, Any]], lost: int | None = None, replayed: int = 2) -> set[str]:
        """Return the causes that miscounted_causes refuses in cause_day after the given changes.

        changes : new values for the rows of cause_day, by the number of the cause
        lost : number of the cause whose row is missing
        replayed : number of replayed units that fleet_day states; job_causes has 2
        """
        causes = [
            {"cause": cause, "attributed_gpu_hours": 48.0, "recoverable_gpu_hours": 96.0, "jobs": 2}
            | {"lost_gpu_hours": 48.0}
            | changes.get(number, {})
            for number, cause in enumerate(CAUSES)
            if number != lost
        ]
        units = [{"cause": cause, "job_id": job_id} for cause in CAUSES for job_id in "ab"]
        fleet = [{"replayed": replayed}, {"log_date": NEXT_DAY, "replayed": 0}]
        rows: dict[str, Any] = {JOB_CAUSES: units, CAUSE_DAY: causes, FLEET_DAY: fleet}
        rule = miscounted_causes({name: table_rows(name, of_table) for name, of_table in rows.items()})
        return set(rule.rows["cause"].to_pylist())

    assert wrong({0: {"attributed_gpu_hours": 48.0 * (1 + 1e-11)}}) == set()
    changes: dict[int, dict[str, Any]] = {
        0: {"jobs": 1},
        1: {"flagged_jobs": 1},
        2: {"attributed_gpu_hours": 48.1},
        3: {"recoverable_gpu_hours": None},
        4: {"replayed": 3},
        6: {"lost_gpu_hours": 47.0},
        7: {"jobs": 3},
        8: {"jobs": 3},
    }
    assert wrong(changes, lost=5) == set(CAUSES)
    assert wrong({}, replayed=3) == set(CAUSES) - set(LOGGED_CAUSES), (
        "each cause has 2 units in job_causes, of 3 replayed"
    )


def test_a_day_is_miscounted_whose_units_are_not_those_that_were_ingested() -> None:
    jobs: list[dict[str, Any]] = [{"job_id": "a"}, {"job_id": "b"}, {"log_date": NEXT_DAY}]
    tables = {JOBS: table_rows(JOBS, jobs), FLEET_DAY: table_rows(FLEET_DAY, [{"jobs": 1}])}
    rule = miscounted_units(tables)
    assert rule.rows.sort_by("log_date").to_pylist() == [
        {"log_date": DAY, "ingested": 2, "counted": 1},
        {"log_date": NEXT_DAY, "ingested": 1, "counted": None},
    ]
    assert rule.check.log_dates == (DAY, NEXT_DAY)
    assert miscounted_units(tables | {FLEET_DAY: table_rows(FLEET_DAY, [])}).check.rows == 2
