"""Checks, which are outcomes of expectations and rules, and the errors that gates raise."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final, NamedTuple

import pyarrow as pa

from jobs.runtime.errors import PlainError
from jobs.runtime.plural import plural
from schemas.table import Severity
from schemas.vocabulary import Exit

SCHEMA_EXPECTATION: Final = "schema"
KEY_EXPECTATION: Final = "key_is_unique"
ON_TIME_EXPECTATION: Final = "log_date_of_this_run"
OF_EVERY_TABLE: Final = {
    SCHEMA_EXPECTATION: "has the columns and types that its declaration names, and no others",
    KEY_EXPECTATION: "no two rows have the same key",
    ON_TIME_EXPECTATION: "rows belong to the days, or the units, that were computed",
}
"""Expectations on every table; they cannot be released, because a table cannot be written without them."""

LOG_DATE: Final = "log_date"
_MOST_LISTED: Final = 5
"""Limit on the refusals that a message lists, because one wrong column often breaks a dozen expectations."""


@dataclass(frozen=True)
class Check:
    """Outcome of one expectation: the number of rows that break it.

    log_dates : days of these rows; empty if unknown
    severity : whether these rows prevent publication or only cause a warning
    """

    table: str
    expectation: str
    rows: int
    meaning: str
    log_dates: tuple[date, ...] = ()
    severity: Severity = "refuses"

    @property
    def name(self) -> str:
        """Return the name by which a person releases this check, that is, accepts its rows by hand."""
        return f"{self.table}.{self.expectation}"

    @property
    def warns(self) -> bool:
        """Return whether broken rows are published with a warning."""
        return bool(self.rows) and self.severity == "warns"

    @property
    def refuses(self) -> bool:
        """Return whether broken rows prevent publication."""
        return bool(self.rows) and self.severity == "refuses"

    @property
    def can_be_released(self) -> bool:
        """Return whether a person may accept broken rows."""
        return self.expectation not in OF_EVERY_TABLE

    def __str__(self) -> str:
        """Return a sentence with table, expectation and number of rows."""
        of = f"table {self.table}, expectation {self.expectation}, {plural(self.rows, 'row')}"
        return f"{of}: {self.meaning}"


class Rule(NamedTuple):
    """Outcome of a rule across rows: its name, and the rows that break it.

    section : heading of the rule in the data docs
    """

    name: str
    rows: pa.Table
    table: str = "several"
    meaning: str = "no row breaks this rule"
    severity: Severity = "refuses"
    section: str = "rules across rows and tables"

    @property
    def check(self) -> Check:
        """Return the rule's outcome as a Check."""
        days = self.rows[LOG_DATE].to_pylist() if LOG_DATE in self.rows.column_names else []
        return Check(self.table, self.name, self.rows.num_rows, self.meaning, known_days(days), self.severity)


def known_days(days: Iterable[date | None]) -> tuple[date, ...]:
    """Return distinct days in order; an empty list if any day is unknown."""
    found = set(days)
    return () if None in found else tuple(sorted(day for day in found if day is not None))


class GateRefusedError(PlainError):
    """Raised when rows break an expectation; the rows are not published, and the exit status is 3.

    kept_in : folder of the refused rows
    published : the message's words about what was published and what was not
    counts : counts of what the same run did publish, in the form that entry points return
    """

    exit_status = Exit.GATE_REFUSED

    def __init__(
        self,
        refusals: Sequence[Check],
        kept_in: str = "",
        published: str = "nothing of this phase was published",
    ) -> None:
        self.refusals, self.kept_in = tuple(refusals), kept_in
        self.counts: Mapping[str, int] = {}
        listed = "; ".join(map(str, self.refusals[:_MOST_LISTED]))
        more = len(self.refusals) - _MOST_LISTED
        and_more = f"; and {more} more" if more > 0 else ""
        where = f" (refused rows are kept in {kept_in})" if kept_in else ""
        super().__init__(f"gate refused, {published}: {listed}{and_more}{where}")

    @property
    def log_dates(self) -> set[date]:
        """Return the days of all refused rows; empty if a refusal may concern any day."""
        known = all(refusal.log_dates for refusal in self.refusals)
        return {day for refusal in self.refusals for day in refusal.log_dates} if known else set()


class GateError(Exception):
    """Raised when an expectation cannot be evaluated, which never counts as a pass."""


class GateWork(NamedTuple):
    """Work of a phase's gates: seconds, expectations checked, and refusals released by hand."""

    seconds: float = 0.0
    expectations: int = 0
    released: int = 0
