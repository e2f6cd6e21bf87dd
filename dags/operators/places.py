"""Locations of the landing and the warehouse, from a task's arguments or the project's settings."""

import subprocess
import sys
from pathlib import Path
from typing import Final

from dags import PROJECT
from dags.operators.alerts import WrongSettings

_ASK: Final = """\
import sys, jobs.runtime.settings as conf
print(getattr(conf.load_settings(*sys.argv[2:]).paths, sys.argv[1]))"""
"""A DAG starts the project's code and never imports it."""


def place(name: str, given: str, project: str, settings: str) -> str:
    """Return the URL or absolute path of the landing or the warehouse.

    Raises WrongSettings if it is set nowhere.

    given : by the task; the settings say it where this is empty
    """
    found = given or _of_settings(name, project, settings)
    return (found if "://" in found else str(Path(project or PROJECT, Path(found).expanduser()))).rstrip("/")


def _of_settings(name: str, project: str, settings: str) -> str:
    command = [sys.executable, "-c", _ASK, name, *filter(None, [settings])]
    asked = subprocess.run(  # noqa: S603  # our own command; the settings' name passes through no shell
        command, cwd=project or PROJECT, capture_output=True, text=True, check=False
    )
    if asked.returncode:
        lines = asked.stderr.strip().splitlines() or [f"exit status {asked.returncode}"]
        raise WrongSettings(f"the settings do not name the {name}: {lines[-1]}")
    return asked.stdout.strip()
