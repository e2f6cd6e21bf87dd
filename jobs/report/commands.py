"""Command lines that lead on from a page, as a shell takes them."""

import re
import shlex
from collections.abc import Sequence
from typing import Final

from jobs.report.rows import Row
from schemas.unit import Unit

_SPECIAL: Final = re.compile(r'["$`\\!]')
"""What double quotes do not keep from a shell."""
_PYTHON: Final = ".venv/bin/python -m"
_COMPUTES: Final = "op_type IN ('forward-compute', 'backward-compute')"
_TRANSFERS: Final = "op_type IN ('forward-send', 'forward-recv', 'backward-send', 'backward-recv')"


def deeper(
    unit: Unit,
    causes: Sequence[Row],
    op_types: Sequence[Row],
    steps: Sequence[Row],
    warehouse: str,
) -> list[tuple[str, str]]:
    """Return what a command tells, and the command: a scenario of one's own, and a step's timeline."""
    found = []
    if op_types:
        fix = f"--fix {_quoted(_predicate(causes, op_types))}"
        found.append(
            (
                "What if these ops had been ideal? Any predicate will do.",
                _of_unit("what_if", unit, warehouse, fix),
            )
        )
    if steps:
        slowest = max(steps, key=lambda row: (row["slowdown"], -row["step"]))
        step = f"--step {slowest['step']}"
        told = f"The timeline of the slowest step, {slowest['step']}."
        found.append((told, _of_unit("export_timeline", unit, warehouse, step)))
    return found


def command(name: str, warehouse: str) -> str:
    """Return the beginning of a command, without the unit that it is about."""
    return f"{_PYTHON} jobs.{name}" + (f" --warehouse {_quoted(warehouse)}" if warehouse else "")


def of_run(unit: Unit) -> str:
    """Return the arguments that name the run of a unit; the day is missing."""
    return f"--job-id={_quoted(unit.job_id)} --run-id={_quoted(unit.run_id)}"


def _of_unit(name: str, unit: Unit, warehouse: str, more: str) -> str:
    return f"{command(name, warehouse)} {of_run(unit)} --log-date {unit.log_date} {more}"


def _predicate(causes: Sequence[Row], op_types: Sequence[Row]) -> str:
    """Ops of the first cause that holds; without one, those of the op type that costs most."""
    held = sorted((row for row in causes if row["is_cause"]), key=lambda row: -row["time_saved_fraction"])
    culprit = held[0]["culprits"][0] if held and held[0]["culprits"] else {}
    if culprit.get("host"):
        return f"host = {_literal(culprit['host'])}"
    if culprit.get("pp_rank") is not None:
        return f"{_COMPUTES} AND pp_rank = {culprit['pp_rank']}"
    if culprit.get("dp_rank") is not None:
        return f"{_COMPUTES} AND dp_rank = {culprit['dp_rank']}"
    if held and held[0]["cause"] == "communication":
        return _TRANSFERS
    if held and held[0]["cause"] in {"data_imbalance", "pause", "stage_imbalance", "slow_worker"}:
        return _COMPUTES
    worst = max(op_types, key=lambda row: row["waste_fraction"])["op_type"]
    return {
        "forward-pp-comm": "op_type IN ('forward-send', 'forward-recv')",
        "backward-pp-comm": "op_type IN ('backward-send', 'backward-recv')",
    }.get(worst, f"op_type = {_literal(worst)}")


def _literal(text: str) -> str:
    """Text as a predicate spells it."""
    return "'" + text.replace("'", "''") + "'"


def _quoted(text: str) -> str:
    """Return a word as a shell takes it; in double quotes where those are easier to read."""
    return f'"{text}"' if "'" in text and not _SPECIAL.search(text) else shlex.quote(text)
