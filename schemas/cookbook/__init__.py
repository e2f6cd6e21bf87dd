"""The cookbook: questions that people ask, one .sql file each, the question its comment at the top.

README.md beside them holds the answers that the demo's fleet gives; `python -m jobs.cookbook` writes it.
"""

from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from schemas.sql_files import load


@dataclass(frozen=True)
class Recipe:
    """A question and the SQL that answers it."""

    name: str
    question: str
    sql: str


def _names() -> list[str]:
    found = (file.name for file in files(__name__).iterdir())
    return sorted(name.removesuffix(".sql") for name in found if name.endswith(".sql"))


RECIPES: Final = tuple(Recipe(name, *load(__name__, name, {})) for name in _names())
"""In the order of their numbers."""
