"""Packages for other machines: the project's zip for clusters, the emitter's wheel for training images.

Run as a module, it writes dist/straggler-fleet.zip, or the file named by its argument, for `spark-submit
--py-files`. With the argument `emitter`, it writes dist/straggler_emitter-*.whl. A wheel is a zip with three
files of metadata, so that no build tool is needed. The same code gives the same bytes.
"""

import base64
import hashlib
import os
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from jobs.runtime.project import PROJECT
from jobs.runtime.terminal import say

ZIP_NAME: Final = "straggler-fleet.zip"
_FOLDERS: Final = ("jobs", "udfs", "schemas", "conf")
_LEFT_OUT: Final = (PROJECT / "jobs/synthetic", PROJECT / "jobs/make_demo.py", PROJECT / "jobs/make_fleet.py")
"""The generator of fleets, which runs only from a checkout."""
_SUFFIXES: Final = (".py", ".sql", ".toml", ".html", ".css", ".js", ".json")
_EMITTER: Final = "straggler_emitter"
_VERSION: Final = "0.1.0"
_METADATA: Final = f"""Metadata-Version: 2.1
Name: straggler-emitter
Version: {_VERSION}
Summary: Rank logs (rank-log/1) from inside a training job: a writer, and hooks for Megatron and PyTorch.
Requires-Python: >=3.10
Description-Content-Type: text/markdown

"""
_WHEEL: Final = "Wheel-Version: 1.0\nGenerator: straggler-fleet\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def write_zip(target: Path) -> Path:
    """Write the zip for spark-submit to `target` and return it."""
    files = sorted(
        file
        for folder in _FOLDERS
        for file in (PROJECT / folder).rglob("*")
        if file.suffix in _SUFFIXES and not any(map(file.is_relative_to, _LEFT_OUT))
    )
    return _packed(target, {file.relative_to(PROJECT).as_posix(): file.read_bytes() for file in files})


def write_wheel(folder: Path) -> Path:
    """Write the emitter's wheel into `folder` and return its path."""
    emitter, info = PROJECT / "jobs" / "emitter", f"{_EMITTER}-{_VERSION}.dist-info"
    contents = {f"{_EMITTER}/{file.name}": file.read_bytes() for file in sorted(emitter.glob("*.py"))}
    contents[f"{info}/METADATA"] = _METADATA.encode() + (emitter / "README.md").read_bytes()
    contents[f"{info}/WHEEL"] = _WHEEL.encode()
    record = []
    for name, content in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record.append(f"{name},sha256={digest},{len(content)}")
    contents[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    return _packed(folder / f"{_EMITTER}-{_VERSION}-py3-none-any.whl", contents)


def _packed(target: Path, contents: Mapping[str, bytes]) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # the earliest a zip knows
            archive.writestr(info, content, zipfile.ZIP_DEFLATED)
    return target


if __name__ == "__main__":
    dist, given = PROJECT / "dist", sys.argv[1:]
    written = (
        write_wheel(dist) if given == ["emitter"] else write_zip(Path(*given) if given else dist / ZIP_NAME)
    )
    say(f"{os.path.relpath(written)}: {written.stat().st_size / 1e3:.0f} kB")
