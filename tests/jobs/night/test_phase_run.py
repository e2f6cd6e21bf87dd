"""A night's log has a line for each phase, with its duration, and with units and ops a second."""

from datetime import date
from types import SimpleNamespace
from typing import Any

from jobs.entry_points.run_log import phase_work
from jobs.gates.checks import GateWork
from jobs.night.phase_run import phase_line
from schemas.unit import Unit

DAYS = [date(2026, 1, 6), date(2026, 1, 5)]


def test_a_phase_is_a_line_with_seconds_and_rates() -> None:
    units = (Unit(DAYS[0], "llm", "r1"), Unit(DAYS[1], "llm", "r1"), Unit.of_day(DAYS[0]))
    done: Any = [
        SimpleNamespace(unit=unit, ops=ops, bytes=0)
        for unit, ops in zip(units, (1_500, 2_500, 0), strict=True)
    ]
    said = "ingest of 2026-01-05 to 2026-01-06: 2 units in 4.0 s; 0.5 units and 1,000 ops a second"
    assert phase_line("ingest", DAYS, done, 4.0) == said
    assert phase_work("ingest", done, 4.0, GateWork(0.5, 7, 0))["ingest.units"] == 2, "as in the phase's line"
    assert phase_line("revise", DAYS[:1], done[:1], 0.0) == "revise of 2026-01-06: 1 unit in 0.0 s"
    assert phase_line("revise", DAYS[:1], [], 0.0) == "revise of 2026-01-06: 0 units in 0.0 s"
