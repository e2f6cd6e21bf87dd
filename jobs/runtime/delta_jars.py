"""Delta's JARs, which Spark's resolver fetches once into the environment and sessions use without network.

Run as a module, it fetches them; `make setup` does that.
"""

import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from jobs.runtime.errors import PlainError
from jobs.runtime.jvm import JvmError, launch_jvm
from jobs.runtime.settings import load_settings
from jobs.runtime.settings_sections import SparkSettings

IVY: Final = Path(sys.prefix) / "ivy"
"""Folder in this Python's environment for the resolver's cache and JARs."""


_REASONS: Final = (
    r"^Server access error",
    r"^Host .+ not found",
    r"not well configured",
    r"certificate|SSL",
    r"not found$",
    r"Exception in thread",
)
"""Patterns of lines that the resolver prints when it fails, the most useful first."""


class DeltaJarsError(Exception):
    """Raised when Delta's JARs cannot be fetched; the message says why in one line."""


def resolved_jars(packages: Sequence[str]) -> list[str]:
    """Return the paths of the JARs for these Maven coordinates; empty if any is missing."""
    jars = sorted(str(jar) for jar in (IVY / "jars").glob("*.jar"))
    names = {Path(jar).name for jar in jars}
    parts = (package.split(":") for package in packages)
    wanted = {f"{group}_{artifact}-{version}.jar" for group, artifact, version in parts}
    return jars if wanted <= names else []


def resolver_conf(spark: SparkSettings) -> dict[str, str]:
    """Return Spark settings with which Spark's resolver puts Delta's JARs into the folder IVY."""
    return {
        "spark.jars.packages": ",".join(spark.packages),
        "spark.jars.excludes": ",".join(spark.excludes),
        "spark.jars.ivy": str(IVY),
    }


def fetch(spark: SparkSettings) -> list[str]:
    """Fetch Delta's JARs and return their paths; remove JARs of other versions.

    Raises DeltaJarsError if the resolver cannot fetch them, JavaNotFoundError without Java.
    """
    shutil.rmtree(IVY / "jars", ignore_errors=True)
    asked = {key: value for key, value in spark.conf.items() if key.startswith("spark.jars.")}
    with tempfile.TemporaryFile() as errors:
        try:
            launch_jvm({**asked, **resolver_conf(spark), "spark.master": "local[1]"}, errors)
        except JvmError:
            errors.seek(0)
            output = errors.read().decode(errors="replace")
            lines = [" ".join(line.split()) for line in output.splitlines() if line.strip()]
            # The resolver asks Maven Central first, and then spark-packages, which has none of these JARs.
            first = [line for line in lines if "spark-packages" not in line]
            found = (line for pattern in _REASONS for line in first if re.search(pattern, line))
            raise DeltaJarsError(
                f"cannot fetch {', '.join(spark.packages)}: {next(found, lines[-1])[:300]} (behind a mirror "
                "or without network: name it as spark.jars.repositories or spark.jars.ivySettings under "
                "[spark.conf] in conf/base.toml)"
            ) from None
    return resolved_jars(spark.packages)


if __name__ == "__main__":
    try:
        found = fetch(load_settings().spark)
    except (DeltaJarsError, PlainError) as error:
        sys.exit(f"delta_jars: {error}")
    print(f"{sum(Path(jar).stat().st_size for jar in found) / 1e6:.1f} MB in {len(found)} files: {IVY}")
