"""Command lines that lead on from a page, as a shell takes them; how they are spelled is decided here."""

import re
import shlex
from collections.abc import Sequence
from datetime import date
from typing import Final

from schemas.unit import Unit

_SPECIAL: Final = re.compile(r'["$`\\!]')
"""What double quotes do not keep from a shell."""


def command(name: str, warehouse: str) -> str:
    """Return the beginning of a command of jobs.console, without what it is about."""
    return f"straggler {name}" + (f" --warehouse {_quoted(warehouse)}" if warehouse else "")


def of_run(unit: Unit) -> str:
    """Return the arguments that name the run of a unit; the day is missing."""
    return f"--job-id={_quoted(unit.job_id)} --run-id={_quoted(unit.run_id)}"


def fix_causes(unit: Unit, causes: Sequence[str], warehouse: str) -> str:
    """Replay a unit with each of these causes fixed, and with all of them."""
    return f"{_of_unit('what-if', unit, warehouse)} {' '.join(f'--fix {cause}' for cause in causes)}"


def timeline(unit: Unit, warehouse: str) -> str:
    """Write the timeline of a step of a unit; the step's number is missing at the end."""
    return f"{_of_unit('timeline', unit, warehouse)} --step "


def effect_on_host(host: str, day: date, warehouse: str) -> str:
    """Compare what a host did before and after a day on which it was repaired."""
    return f"{command('fix-effect', warehouse)} --date {day} --host={_quoted(host)}"


def _of_unit(name: str, unit: Unit, warehouse: str) -> str:
    return f"{command(name, warehouse)} {of_run(unit)} --log-date {unit.log_date}"


def _quoted(text: str) -> str:
    """Return a word as a shell takes it; in double quotes where those are easier to read."""
    return f'"{text}"' if "'" in text and not _SPECIAL.search(text) else shlex.quote(text)
