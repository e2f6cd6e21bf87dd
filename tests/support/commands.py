"""Start the project's commands as a user would, with almost no environment variables."""

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
"""Environment variables that a started command inherits."""

SHORT_LIVED = f"-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC {FROM_ARCHIVE}"
"""Options of a JVM that ends before thorough compilation pays: a third less CPU time for each phase.

Without a stated size, the cache of compiled code has only 48 MB with these options, a fifth of the usual
size. A phase that revises two weeks of later days fills it, continues uncompiled, and may fail.
"""


def start(
    command: Sequence[str], folder: Path = PROJECT, exported: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end in a folder, with almost no environment variables."""
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    environment = {**inherited, "SPARK_SUBMIT_OPTS": SHORT_LIVED, **(exported or {})}
    return subprocess.run(
        list(command), capture_output=True, text=True, check=False, cwd=folder, env=environment
    )


def spark_submit(*arguments: str) -> list[str]:
    """Command line of the environment's own spark-submit."""
    python = Path(sys.executable)
    return ["env", f"PYSPARK_PYTHON={python}", str(python.with_name("spark-submit")), *arguments]


def arguments_of(command: Command, argv: Sequence[str]) -> dict[str, Any]:
    """Return the values of a command's parameters; raises click.UsageError for wrong arguments."""
    return command.make_context(command.name, list(argv)).params
