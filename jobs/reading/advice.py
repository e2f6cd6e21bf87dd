"""What to say of a question that an engine does not understand, and of an answer that fails."""

import re
from collections.abc import Sequence
from typing import Final

from jobs.runtime.nearest import suggestion
from schemas.tables import TABLES

_INDENT: Final = re.compile(r"(?:\s|\x1b\[\d+m|↳)*\n(?:\s|\x1b\[\d+m|↳)*")
"""Between the lines of deltalake's errors, each of which is the reason of the one before."""


class AnswerError(Exception):
    """Raised when a valid question fails, on the data or out of memory."""


def no_column(name: str, reads: Sequence[str], columns: Sequence[str]) -> str:
    """Name the column that may be meant, or the tables that have the one asked for.

    reads : tables and views that the question names
    columns : those that it could have named
    """
    owners = [table.name for table in TABLES.values() if name.lower() in table.column_names]
    if owners and not set(owners) <= set(reads):
        return f"no column {name} in {', '.join(reads) or 'the query'}: {', '.join(owners)} have it"
    return f"no column {name}: {suggestion(name, list(dict.fromkeys(columns)))}"


def first_line(error: Exception) -> str:
    """Return what an engine says, without the lines that point into the SQL."""
    return next(iter(str(error).strip().splitlines()), "")


def one_line(error: Exception) -> str:
    """Return what deltalake says, with all reasons: the last is what went wrong."""
    return _INDENT.sub(": ", str(error).strip())
