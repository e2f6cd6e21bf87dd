"""No gate refuses results of units with odd times, so that such logs cannot stop a night."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

from jobs.gates.audit import broken_rows
from jobs.synthetic.job import recorded_job
from jobs.synthetic.mechanisms.nuisances import ClockSkew
from jobs.synthetic.sample_job import sample_job
from jobs.synthetic.simulation import Simulation
from schemas.tables import TABLES
from schemas.vocabulary import OP_TYPES, RESULT_TABLES
from tests.support.examples import DAY
from udfs.errors import TraceError
from udfs.what_if import simulate_job

Times = np.ndarray[Any, np.dtype[np.float64]]
Record = Callable[[np.random.Generator, Times, Times, Times], tuple[Times, Times]]
"""Changes the times of a line: (generator, op codes, starts, durations) -> (starts, durations). [us]"""

SEEDS: Final = range(6_100_000, 6_100_006)


def _some(rng: np.random.Generator, times: Times, factor: float) -> Times:
    return np.where(rng.random(len(times)) < 0.02, times * factor, times)


def _no_time_for(code: int) -> Record:
    return lambda _, op, start, duration: (start, np.where(op == code, 0.0, duration))


RECORDS: Final[dict[str, Record]] = {
    **{f"no time for {name}": _no_time_for(code) for code, name in enumerate(OP_TYPES)},
    "clocks that differ": lambda _, __, start, duration: (start, duration),
    "no time for computes": lambda _, op, start, duration: (start, np.where(op < 2, 0.0, duration)),
    "everything takes no time": lambda _, __, start, duration: (start * 0.0, duration * 0.0),
    "some ops take a thousand times as long": lambda rng, _, start, duration: (
        start,
        _some(rng, duration, 1e3),
    ),
    "some ops take years": lambda rng, _, start, duration: (start, _some(rng, duration, 1e9)),
    "some ops start years later": lambda rng, _, start, duration: (_some(rng, start, 1e9), duration),
    "a picosecond for a microsecond": lambda _, __, start, duration: (start * 1e-6, duration * 1e-6),
    "an hour for a microsecond": lambda _, __, start, duration: (start * 3.6e9, duration * 3.6e9),
}


def results(way: str, seed: int) -> dict[str, pa.Table]:
    """Simulate a random job after changing its times; raises TraceError if they give no order of ops."""
    drawn = sample_job(seed, most_ops=1500)
    skew = (ClockSkew(0.015),) if way == "clocks that differ" else ()
    job = recorded_job(Simulation(replace(drawn, mechanisms=(*drawn.mechanisms, *skew))))
    rng = np.random.default_rng(seed)
    lines = job.rank_steps.to_pylist()
    for line in lines:
        times = (np.array(line[name], float) for name in ("op", "start_us", "duration_us"))
        start_us, duration_us = RECORDS[way](rng, *times)
        line |= {"start_us": start_us.tolist(), "duration_us": duration_us.tolist()}
    return simulate_job(pa.Table.from_pylist(lines, schema=job.rank_steps.schema), job.manifest)


@pytest.fixture(scope="module")
def rows() -> dict[str, list[dict[str, Any]]]:
    """Rows of every result table for all replayed units; fails if a simulation divides by 0 or overflows."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in RESULT_TABLES}
    for way in RECORDS:
        for seed in SEEDS:
            key = {"log_date": DAY, "job_id": way, "run_id": str(seed)}
            try:
                with np.errstate(all="raise", under="ignore"):
                    tables = results(way, seed)
            except TraceError:
                continue
            for name, table in tables.items():
                found[name] += [key | row for row in table.to_pylist(maps_as_pydicts="strict")]
    return found


@pytest.mark.parametrize("name", RESULT_TABLES)
def test_no_row_of_an_odd_unit_is_refused(rows: dict[str, list[dict[str, Any]]], name: str) -> None:
    table = pa.Table.from_pylist(rows[name], schema=TABLES[name].arrow_schema)
    assert broken_rows(TABLES[name], table).select(["job_id", "run_id", "broken"]).to_pylist() == []


def test_odd_units_are_replayed_unless_their_times_give_no_order(
    rows: dict[str, list[dict[str, Any]]],
) -> None:
    statuses = {row["job_id"]: row["status"] for row in rows["job_slowdown"]}
    assert set(RECORDS) - set(statuses) == {"everything takes no time"}
    implausible = {
        "a picosecond for a microsecond",
        "an hour for a microsecond",
        "some ops start years later",
        "some ops take years",
    }
    assert {name for name, status in statuses.items() if status == "implausible_times"} == implausible
