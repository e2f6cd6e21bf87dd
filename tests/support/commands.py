"""Starts this project's commands as a user would, from an environment in which nothing was prepared."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jobs.runtime.arguments import Command
from jobs.runtime.project import PROJECT
from tests.support.class_archive import FROM_ARCHIVE

INHERITED = ("PATH", "HOME", "JAVA_HOME", "TMPDIR", "LANG")
"""All that a command gets of this process's environment."""

SHORT_LIVED = f"-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC {FROM_ARCHIVE}"
"""For a JVM that ends before thorough compilation pays: a third less CPU time for each stage.

Without a separate size its code may take 48 MB, a fifth of what is usual: a stage that revises two weeks of
later days fills that, goes on uncompiled, and may die of it.
"""


def start(
    command: Sequence[str], folder: Path = PROJECT, exported: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end in a folder, with what is exported here and little else."""
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    environment = {**inherited, "SPARK_SUBMIT_OPTS": SHORT_LIVED, **(exported or {})}
    return subprocess.run(
        list(command), capture_output=True, text=True, check=False, cwd=folder, env=environment
    )


def spark_submit(*arguments: str) -> list[str]:
    """The command line of the environment's own spark-submit."""
    python = Path(sys.executable)
    return ["env", f"PYSPARK_PYTHON={python}", str(python.with_name("spark-submit")), *arguments]


def arguments_of(command: Command, argv: Sequence[str]) -> dict[str, Any]:
    """What a command would be given. Raises click.UsageError."""
    return command.make_context(command.name, list(argv)).params
