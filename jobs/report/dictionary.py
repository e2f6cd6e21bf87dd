"""The data dictionary as a page: every table, column, view and named query."""

from typing import Final

from jobs.report import templates
from schemas.dictionary import entries
from schemas.queries import QUERIES
from schemas.symbols import SYMBOLS, symbols_of
from schemas.tables import TABLES
from schemas.views import VIEWS
from schemas.vocabulary import (
    FLEET_TABLES,
    INGESTED_TABLES,
    LIVE_TABLES,
    PIPELINE_RUNS,
    PUBLICATIONS,
    RESULT_TABLES,
    UNIT_FINGERPRINTS,
)

GROUPS: Final = (
    ("What was ingested", INGESTED_TABLES),
    ("Results of each unit", RESULT_TABLES),
    ("The fleet, day by day", FLEET_TABLES),
    ("The pipeline itself", (UNIT_FINGERPRINTS, PIPELINE_RUNS, PUBLICATIONS)),
    ("Runs that go on", LIVE_TABLES),
)
"""Tables as the page lists them."""


def dictionary() -> bytes:
    """Return the dictionary as HTML that uses a publication's style and script."""
    values = {
        "root": ".",
        "title": "Data dictionary - straggler warehouse",
        "groups": [(title, [TABLES[name] for name in names]) for title, names in GROUPS],
        "columns": {name: [entry for entry in entries() if entry.table == name] for name in TABLES},
        "symbols": SYMBOLS,
        "symbols_of": symbols_of,
        "views": list(VIEWS.values()),
        "queries": list(QUERIES.values()),
    }
    return templates.page(templates.DICTIONARY_NAME, values)


def dictionary_alone() -> bytes:
    """Return the dictionary as one self-contained HTML file."""
    return templates.single_file(dictionary(), templates.shared_files(templates.DICTIONARY_SCRIPT))
