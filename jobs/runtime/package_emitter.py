"""The emitter as a separate wheel for training images: dist/straggler_emitter-*.whl.

A wheel is a zip with three files of metadata; writing it takes less than a build tool, and the same code
gives the same bytes. `make emitter` runs this.
"""

import base64
import hashlib
import sys
import zipfile
from pathlib import Path
from typing import Final

from jobs.runtime.package import ANY_TIME
from jobs.runtime.project import PROJECT

NAME: Final = "straggler_emitter"
VERSION: Final = "0.1.0"
_METADATA: Final = f"""Metadata-Version: 2.1
Name: straggler-emitter
Version: {VERSION}
Summary: Rank logs (rank-log/1) from inside a training job: a writer, and hooks for Megatron and PyTorch.
Requires-Python: >=3.10
Description-Content-Type: text/markdown

"""
_WHEEL: Final = "Wheel-Version: 1.0\nGenerator: straggler-fleet\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def write_wheel(folder: Path) -> Path:
    """Write the wheel into `folder` and return its path."""
    emitter, info = PROJECT / "jobs" / "emitter", f"{NAME}-{VERSION}.dist-info"
    contents = {f"{NAME}/{file.name}": file.read_bytes() for file in sorted(emitter.glob("*.py"))}
    contents[f"{info}/METADATA"] = _METADATA.encode() + (emitter / "README.md").read_bytes()
    contents[f"{info}/WHEEL"] = _WHEEL.encode()
    record = [f"{name},sha256={_digest(content)},{len(content)}" for name, content in contents.items()]
    contents[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{NAME}-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in contents.items():
            wheel.writestr(zipfile.ZipInfo(name, ANY_TIME), content, zipfile.ZIP_DEFLATED)
    return target


def _digest(content: bytes) -> str:
    """The hash of a file as RECORD wants it."""
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    written = write_wheel(PROJECT / "dist")
    sys.stdout.write(f"{written.relative_to(PROJECT)}: {written.stat().st_size / 1e3:.0f} kB\n")
