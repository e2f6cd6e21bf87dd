"""The data dictionary as a page: every table, column, view and named query, from their declarations."""

from typing import Final

from jinja2 import Environment, StrictUndefined

from jobs.report.templates import of_inline
from jobs.runtime.project import project_file
from schemas.dictionary import entries
from schemas.queries import QUERIES
from schemas.symbols import SYMBOLS, symbols_of
from schemas.tables import TABLES
from schemas.views import VIEWS
from schemas.vocabulary import FLEET_TABLES, INGESTED_TABLES, RESULT_TABLES, TABLE_NAMES

_TEMPLATE: Final = ("jobs", "reading", "dictionary.html")

GROUPS: Final = (
    ("What was ingested", INGESTED_TABLES),
    ("Results of each unit", RESULT_TABLES),
    ("The fleet, day by day", FLEET_TABLES),
    ("The pipeline itself", TABLE_NAMES[len(INGESTED_TABLES + RESULT_TABLES + FLEET_TABLES) :]),
)
"""Tables as the page lists them."""


def render() -> str:
    """Return the page as HTML."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    text = project_file(*_TEMPLATE).read_text(encoding="utf-8")
    columns = {name: [entry for entry in entries() if entry.table == name] for name in TABLES}
    return environment.from_string(text).render(
        policy=of_inline(text),
        groups=[(title, [TABLES[name] for name in names]) for title, names in GROUPS],
        columns=columns,
        symbols=SYMBOLS,
        symbols_of=symbols_of,
        views=list(VIEWS.values()),
        queries=list(QUERIES.values()),
    )
