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
"""Program that prints one path of the settings; it runs in a process, because DAGs never import jobs/."""


def place(name: str, given: str, project: str, settings: str) -> str:
    """Return the URL or absolute path of the landing or the warehouse.

    given : location in the task's arguments; empty: that of the settings
    Raises WrongSettings if neither names it.
    """
    if not given:
        command = [sys.executable, "-c", _ASK, name, *filter(None, [settings])]
        asked = subprocess.run(  # noqa: S603  # our own command; the settings' name passes through no shell
            command, cwd=project or PROJECT, capture_output=True, text=True, check=False
        )
        if asked.returncode:
            lines = asked.stderr.strip().splitlines() or [f"exit status {asked.returncode}"]
            raise WrongSettings(f"the settings do not name the {name}: {lines[-1]}")
        given = asked.stdout.strip()
    return (given if "://" in given else str(Path(project or PROJECT, Path(given).expanduser()))).rstrip("/")
