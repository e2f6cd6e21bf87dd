"""The cookbook: common questions with one .sql file each, whose first comment is the question.

README.md beside them holds the answers that the demo's fleet gives; `straggler cookbook` writes it.
"""

from importlib.resources import files
from typing import Final

from schemas.sql_files import SqlFile, load

_NAMES: Final = sorted(file.name for file in files(__name__).iterdir() if file.name.endswith(".sql"))
RECIPES: Final[tuple[SqlFile, ...]] = tuple(load(__name__, name.removesuffix(".sql")) for name in _NAMES)
"""Sorted by number."""
