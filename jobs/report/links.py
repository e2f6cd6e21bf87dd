"""Paths of the report's files, and command lines for pages, with quoted arguments.

Ids and host names may contain any text; in file names only letters, digits, _ and - are kept of them.
"""

import re
import shlex
from collections.abc import Sequence
from datetime import date
from hashlib import sha256
from typing import Final

from schemas.unit import Unit

JOBS_FOLDER: Final = "jobs"
"""Folder of the job pages in a publication."""
HOSTS_FOLDER: Final = "hosts"
"""Folder of the host pages in a publication."""
INDEX_NAME: Final = "index.html"
HEADLINE_NAME: Final = "headline.txt"
"""File with the first sentence of a publication, for the list of all publications."""

_SPECIAL: Final = re.compile(r'["$`\\!]')
"""Characters that a shell interprets within double quotes."""
_HARMLESS: Final = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST: Final = 40


def job_page_path(day: date | str, job_id: str, run_id: str) -> str:
    """Return the path of a unit's page, relative to the report's root; unique for each unit."""
    return f"{day}/{JOBS_FOLDER}/{_file_name(job_id, run_id)}"


def host_page_path(host: str) -> str:
    """Return the path of a host's page, relative to the publication's folder."""
    return f"{HOSTS_FOLDER}/{_file_name(host)}"


def docs_path(warehouse_root: str, log_date: date, phase: str) -> str:
    """Return the path or URL of the data docs that a phase of a night wrote."""
    return f"{warehouse_root}/{docs_name(log_date, phase)}"


def docs_name(log_date: date, phase: str) -> str:
    """Return the path of the data docs that a phase of a night wrote, relative to the warehouse's root."""
    return f"_quality/log_date={log_date.isoformat()}/{phase}.html"


def _file_name(*ids: str) -> str:
    shown = "-".join(_HARMLESS.sub("-", text)[:_LONGEST].strip("-") for text in ids)
    digest = sha256(f"{len(ids[0])}:{''.join(ids)}".encode()).hexdigest()[:10]
    return f"{shown}-{digest}.html"


def command(name: str, warehouse: str) -> str:
    """Return the beginning of a straggler command, with --warehouse unless `warehouse` is empty."""
    return f"straggler {name}" + (f" --warehouse {_quoted(warehouse)}" if warehouse else "")


def mitigate_command(unit: Unit, warehouse: str) -> str:
    """Return the command that replays the mitigations of a unit."""
    return f"{command('mitigate', warehouse)} {_quoted(f'{unit.job_id}/{unit.run_id}@{unit.log_date}')}"


def of_run(unit: Unit) -> str:
    """Return the arguments that select a unit's run, without the day."""
    return f"--job-id={_quoted(unit.job_id)} --run-id={_quoted(unit.run_id)}"


def fix_command(unit: Unit, causes: Sequence[str], warehouse: str) -> str:
    """Return the command that replays a unit with each of these causes fixed, and with all of them fixed."""
    return f"{_of_unit('what-if', unit, warehouse)} {' '.join(f'--fix {cause}' for cause in causes)}"


def timeline_command(unit: Unit, warehouse: str) -> str:
    """Return the command that writes a unit's timeline, up to `--step `; the page adds the step's number."""
    return f"{_of_unit('timeline', unit, warehouse)} --step "


def effect_on_host(host: str, day: date, warehouse: str) -> str:
    """Return the command that compares the waste on a host before and after a day, such as a repair's."""
    return f"{command('fix-effect', warehouse)} --date {day} --host={_quoted(host)}"


def _of_unit(name: str, unit: Unit, warehouse: str) -> str:
    return f"{command(name, warehouse)} {of_run(unit)} --log-date {unit.log_date}"


def _quoted(text: str) -> str:
    """Quote a word for the shell, in double quotes if that is easier to read."""
    return f'"{text}"' if "'" in text and not _SPECIAL.search(text) else shlex.quote(text)
