"""The project as one zip: what `spark-submit --py-files` and the executors of a cluster take.

Run as a module it writes dist/straggler-fleet.zip; `make package` does.
"""

import sys
import zipfile
from pathlib import Path
from typing import Final

from jobs.runtime.project import PROJECT

ZIP_NAME: Final = "straggler-fleet.zip"
_FOLDERS: Final = ("jobs", "udfs", "schemas", "conf")
_LEFT_OUT: Final = (PROJECT / "jobs/synthetic", PROJECT / "jobs/make_demo.py", PROJECT / "jobs/make_fleet.py")
"""The generator of fleets, which runs only from a checkout."""
_SUFFIXES: Final = (".py", ".sql", ".toml", ".html", ".css", ".js")
ANY_TIME: Final = (1980, 1, 1, 0, 0, 0)  # the earliest a zip knows: equal code gives an equal file


def write_zip(target: Path) -> Path:
    """Write what runs under spark-submit to `target` (same code, same bytes) and return it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    files = sorted(
        file
        for folder in _FOLDERS
        for file in (PROJECT / folder).rglob("*")
        if file.suffix in _SUFFIXES and not any(map(file.is_relative_to, _LEFT_OUT))
    )
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            entry = zipfile.ZipInfo(file.relative_to(PROJECT).as_posix(), ANY_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, file.read_bytes())
    return target


if __name__ == "__main__":
    written = write_zip(PROJECT / "dist" / ZIP_NAME)
    sys.stdout.write(f"{written.relative_to(PROJECT)}: {written.stat().st_size / 1e3:.0f} kB\n")
