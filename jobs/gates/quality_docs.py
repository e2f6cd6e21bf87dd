"""Data docs: a page per phase and day with all checks of the gates, stored beside the tables."""

import logging
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

from jinja2 import Environment

from jobs.gates.checks import OF_EVERY_TABLE, Check, Rule
from jobs.report.links import docs_name
from jobs.report.templates import of_inline
from jobs.runtime.project import project_file
from jobs.warehouse.stored import STORE_ERRORS
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.vocabulary import PHASE_NAMES

LATER: Final = "-later"
"""Suffix of the phase in the name of a page about later changes of a night."""

REFUSED: Final = "refused"
"""Outcome of a page about rows that were not published."""

_LOG: Final = logging.getLogger(__name__)


class TableChecks(NamedTuple):
    """Checks of one table, or of rules across several tables."""

    table: str
    meaning: str
    rows: int | None
    checks: Sequence[Check]

    @property
    def broken(self) -> list[Check]:
        """Return the checks that did not pass."""
        return [check for check in self.checks if check.rows]


@dataclass(frozen=True)
class Page:
    """Contents of one page: phase, days, outcome and checks.

    root : root of the warehouse
    released : names of the refused checks that a person has released
    kept_in : folder of the refused rows
    """

    phase: str
    log_dates: Sequence[date]
    root: str
    tables: Sequence[TableChecks] = ()
    released: Collection[str] = ()
    kept_in: str = ""
    figures: Mapping[str, object] | None = None
    warnings: Sequence[str] = ()

    @property
    def is_of_parts(self) -> bool:
        """Return whether the page covers only some units or tables of its days.

        Such a page is stored beside the whole day's page.
        """
        return self.phase.endswith(LATER)

    @property
    def refusals(self) -> list[Check]:
        """Return the checks that failed and prevent publication, of all tables."""
        return [check for table in self.tables for check in table.checks if check.refuses]

    def outcome_of(self, check: Check) -> str:
        """Return the outcome of a check, in one word."""
        if not check.rows:
            return "passed"
        if check.warns:
            return "warning"
        return "released" if check.name in self.released else REFUSED

    @property
    def releases(self) -> list[str]:
        """Return the commands that release all refusals, by day; empty if any refusal cannot be released."""
        if not all(check.can_be_released for check in self.refusals):
            return []
        commands = []
        for day in self.log_dates:
            named = [each.name for each in self.refusals if day in (each.log_dates or self.log_dates)]
            accept = [word for name in named for word in ("--accept", name)]
            words = ["--warehouse", self.root, "--log-date", day.isoformat(), *accept]
            release = f"straggler release {shlex.join(words)} --by WHO --because WHY"
            commands += [release] if named else []
        return commands

    @property
    def outcome(self) -> str:
        """Return the outcome over all tables: passed, refused, or released by hand."""
        if not self.refusals:
            return "passed"
        return "released by hand" if {each.name for each in self.refusals} <= {*self.released} else REFUSED


def table_checks(
    rows: Mapping[str, int], rules: Sequence[Rule], broken: Sequence[Check]
) -> list[TableChecks]:
    """Return the checks of a phase, grouped by table, then its rules, grouped by section of the page.

    rows : number of rows of each table
    broken : checks of these tables that did not pass
    """
    failed = {check.name: check for check in broken}
    found = []
    for name, count in rows.items():
        meanings = {each.name: each.meaning for each in TABLES[name].all_expectations()} | OF_EVERY_TABLE
        passed = [Check(name, expectation, 0, meaning) for expectation, meaning in meanings.items()]
        checks = [failed.get(check.name, check) for check in passed]
        found.append(TableChecks(name, TABLES[name].meaning, count, checks))
    for section, some in groupby(rules, attrgetter("section")):
        found.append(TableChecks(section, "", None, [each.check for each in some]))
    return found


def write_docs(warehouse: Warehouse, page: Page) -> None:
    """Write the page for each day that it covers; if this fails, only log a warning.

    When a phase's whole day is published, that phase's page of later changes is removed.
    """
    text = html(page).encode()
    try:
        for day in page.log_dates:
            warehouse.small_files.write(docs_name(day, page.phase), text)
            if page.outcome != REFUSED and not page.is_of_parts:  # its rows were replaced
                warehouse.small_files.remove(docs_name(day, f"{page.phase}{LATER}"))
    except STORE_ERRORS as error:  # the outcome of a gate matters more than its page
        _LOG.warning("data docs of %s could not be written: %s", page.phase, str(error).splitlines()[0])


def html(page: Page) -> str:
    """Render a page as self-contained HTML."""
    text = project_file("jobs", "gates", "quality.html").read_text(encoding="utf-8")
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(text)
    return template.render(page=page, phases=PHASE_NAMES, policy=of_inline(text))
