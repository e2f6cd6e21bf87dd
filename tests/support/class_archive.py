"""Make an archive of the classes that Spark loads, so that test JVMs need half the CPU time to start.

    python -m tests.support.class_archive

A JVM uses the archive only if the same Java made it from the same JARs; otherwise the JVM starts without
an archive.
"""

import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final, cast

from py4j.protocol import Py4JError

from jobs.runtime.project import PROJECT
from jobs.runtime.session import running_gateway, session
from jobs.runtime.settings import load_settings

ARCHIVE: Final = PROJECT / ".venv" / ".spark-classes.jsa"

_QUIETLY: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off"

FROM_ARCHIVE: Final = f"'-XX:SharedArchiveFile={ARCHIVE}' {_QUIETLY}"
"""Options of a JVM that uses the archive. The quotes protect a folder whose name has a space from Spark's
launcher."""


def main() -> int:
    """Start Spark once, run a query, and save the loaded classes."""
    with tempfile.TemporaryDirectory() as folder:
        overlay = Path(folder) / "settings.toml"
        made = Path(folder) / ARCHIVE.name
        options = f"-XX:+UseSerialGC -XX:ArchiveClassesAtExit={made} {_QUIETLY}"
        overlay.write_text(
            '[spark]\nmaster = "local[2]"\n[spark.conf]\n'
            f'"spark.driver.extraJavaOptions" = "{options}"\n'
            f'"spark.sql.warehouse.dir" = "{folder}/spark-warehouse"\n'
        )
        settings = load_settings(overlay, f"{folder}/landing", f"{folder}/warehouse")
        with session(settings, "classes") as spark:
            spark.range(10).selectExpr("id % 2 AS half").groupBy("half").count().toArrow()
        gateway = running_gateway()
        assert gateway is not None
        with suppress(Py4JError, ConnectionError):  # the JVM exits before it answers this call
            gateway.jvm.java.lang.System.exit(0)
        cast("subprocess.Popen[bytes]", gateway.proc).wait()
        if not made.exists():
            return 1  # a Java without an archive of its own classes cannot make one
        part = ARCHIVE.with_suffix(".part")
        part.unlink(missing_ok=True)
        shutil.copyfile(made, part)  # a JVM that finds half an archive exits without a message
        part.replace(ARCHIVE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
