"""All tables of the warehouse, by name."""

from importlib import import_module
from typing import Final

from schemas.table import Table
from schemas.vocabulary import TABLE_NAMES

TABLES: Final[dict[str, Table]] = {name: import_module(f"schemas.{name}").TABLE for name in TABLE_NAMES}
"""In the order of vocabulary.TABLE_NAMES; each is declared in the module of the same name."""
