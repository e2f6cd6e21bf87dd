"""Location of the project: a folder, or the zip given to spark-submit with --py-files."""

import zipfile
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).resolve().parents[2]
"""Folder or zip with the packages jobs, udfs and schemas."""


def is_zip() -> bool:
    """Return whether the project runs from its zip."""
    return PROJECT.is_file()


def project_file(*names: str) -> Traversable:
    """Return the path of a project file in a folder or zip; it need not exist."""
    root: Traversable = zipfile.Path(PROJECT) if is_zip() else PROJECT
    return root.joinpath(*names)


def data_root() -> Path:
    """Return the base folder of relative paths in conf/: the checkout, else the current folder."""
    return PROJECT if (PROJECT / "pyproject.toml").is_file() else Path.cwd()
