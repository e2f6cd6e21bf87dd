"""The cookbook: common questions, each an .sql file whose first comment is the question.

README.md in this folder has the answers for the demo's fleet; `straggler cookbook` writes it.
"""

from importlib.resources import files
from typing import Final

from schemas.sql_files import SqlFile, load

_NAMES: Final = sorted(file.name for file in files(__name__).iterdir() if file.name.endswith(".sql"))
RECIPES: Final[tuple[SqlFile, ...]] = tuple(load(__name__, name.removesuffix(".sql")) for name in _NAMES)
"""All recipes, sorted by the number in their names."""
