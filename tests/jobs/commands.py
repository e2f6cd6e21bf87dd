"""Starts this project's commands as a user would, from an environment in which nothing was prepared."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from jobs.project import PROJECT

INHERITED = ("PATH", "HOME", "JAVA_HOME", "TMPDIR", "LANG")
"""All that a command gets of this process's environment."""


def start(
    command: Sequence[str], folder: Path = PROJECT, exported: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end in a folder, with what is exported here and nothing else."""
    environment = {name: os.environ[name] for name in INHERITED if name in os.environ} | dict(exported or {})
    return subprocess.run(
        list(command), capture_output=True, text=True, check=False, cwd=folder, env=environment
    )


def spark_submit(*arguments: str) -> list[str]:
    """The command line of the environment's own spark-submit."""
    python = Path(sys.executable)
    return ["env", f"PYSPARK_PYTHON={python}", str(python.with_name("spark-submit")), *arguments]
