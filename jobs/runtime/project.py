"""Where the project lies: a folder, or the zip that spark-submit was given with --py-files."""

import zipfile
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).resolve().parents[2]
"""What has to be on the path of an executor's Python for it to import jobs, udfs and schemas."""


def is_zip() -> bool:
    """Tell whether the project runs from its zip."""
    return PROJECT.is_file()


def project_file(*names: str) -> Traversable:
    """Return a file of the project, wherever it lies; it need not exist."""
    root: Traversable = zipfile.Path(PROJECT) if is_zip() else PROJECT
    return root.joinpath(*names)


def data_root() -> Path:
    """Return where relative paths in conf/ start: a checkout; installed, or in a zip, the current folder."""
    return PROJECT if (PROJECT / "pyproject.toml").is_file() else Path.cwd()
