"""Data docs: what the gates checked in one night, a page per phase, beside the tables."""

import logging
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final, cast

from jinja2 import Environment
from py4j.java_gateway import JavaObject, JVMView
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from jobs.gates.audit import KEY_EXPECTATION, ON_TIME_EXPECTATION, SCHEMA_EXPECTATION, Refusal, Rule
from jobs.gates.releases import NEVER
from jobs.report.links import docs_path
from jobs.report.templates import of_inline
from jobs.runtime.project import project_file
from schemas.table import Severity
from schemas.tables import TABLES
from schemas.vocabulary import PHASE_NAMES

LATER: Final = "-later"
"""Ends the names of pages about later changes of a night."""

REFUSED: Final = "refused"
"""Outcome of a page about rows that were not published."""

_OF_EVERY_TABLE: Final = {
    SCHEMA_EXPECTATION: "has the columns and types that its declaration names, and no others",
    KEY_EXPECTATION: "no two rows have the same key",
    ON_TIME_EXPECTATION: "rows are of the days, or the units, computed",
}

_LOG: Final = logging.getLogger(__name__)
_RELEASE: Final = "straggler release"


@dataclass(frozen=True)
class Check:
    """One check.

    rows : number that break it
    is_released : the rows were released by hand
    named : its name in a release; empty if it cannot be released
    severity : whether rows that break it are refused
    log_dates : days of the rows that break it; empty if it may be any day
    """

    name: str
    meaning: str
    rows: int = 0
    is_released: bool = False
    named: str = ""
    log_dates: Sequence[date] = ()
    severity: Severity = "refuses"

    @property
    def outcome(self) -> str:
        """Its outcome in one word."""
        if not self.rows:
            return "passed"
        if self.severity == "warns":
            return "warning"
        return "released" if self.is_released else REFUSED


@dataclass(frozen=True)
class TableChecks:
    """The checks of one table, or across several."""

    table: str
    meaning: str
    rows: int | None
    checks: Sequence[Check]

    @property
    def broken(self) -> list[Check]:
        """Checks that did not pass."""
        return [check for check in self.checks if check.rows]


@dataclass(frozen=True)
class Page:
    """Contents of one page: phase, days, outcome and checks.

    root : of the warehouse
    """

    phase: str
    log_dates: Sequence[date]
    root: str
    tables: Sequence[TableChecks] = ()
    kept_in: str = ""
    figures: Mapping[str, object] | None = None
    warnings: Sequence[str] = ()

    @property
    def is_of_parts(self) -> bool:
        """Whether it is about some units or tables of its days; such a page lies beside that of the whole."""
        return self.phase.endswith(LATER)

    @property
    def broken(self) -> list[Check]:
        """Checks of all tables that did not pass and refuse their rows."""
        return [check for table in self.tables for check in table.broken if check.severity == "refuses"]

    @property
    def releases(self) -> list[str]:
        """Commands that release all of it, day by day; none if that is not possible."""
        if not all(check.named for check in self.broken):
            return []
        commands = []
        for day in self.log_dates:
            named = [check.named for check in self.broken if day in (check.log_dates or self.log_dates)]
            accept = [word for name in named for word in ("--accept", name)]
            words = ["--warehouse", self.root, "--log-date", day.isoformat(), *accept]
            commands += [f"{_RELEASE} {shlex.join(words)} --by WHO --because WHY"] if named else []
        return commands

    @property
    def outcome(self) -> str:
        """Outcome of all tables in one word."""
        if not self.broken:
            return "passed"
        return "released by hand" if all(check.is_released for check in self.broken) else REFUSED


def table_checks(
    rows: Mapping[str, int], rules: Sequence[Rule], refusals: Sequence[Refusal], released: Collection[str]
) -> list[TableChecks]:
    """The checks of a phase, table by table, and last the rules across tables.

    rows : of each table
    released : names of refusals released by hand
    """
    broken = {refusal.name: refusal for refusal in refusals}

    def check(table: str, name: str, meaning: str) -> Check:
        named = f"{table}.{name}"
        refusal = broken.get(named)
        if refusal is None:
            return Check(name, meaning)
        can_be = "" if name in NEVER else named
        days, severity = refusal.log_dates, refusal.severity
        return Check(name, meaning, refusal.rows, named in released, can_be, days, severity)

    found = []
    for name, count in rows.items():
        table = TABLES[name]
        checks = [check(name, each.name, each.meaning) for each in table.all_expectations()]
        checks += [check(name, rule, meaning) for rule, meaning in _OF_EVERY_TABLE.items()]
        found.append(TableChecks(name, table.meaning, count, checks))
    if rules:
        checks = [check(rule.table, rule.name, f"{rule.table}: {rule.meaning}") for rule in rules]
        found.append(TableChecks("rules across rows and tables", "", None, checks))
    return found


def write_docs(spark: SparkSession, page: Page) -> None:
    """Write a page for each of its days; a failure to do so only warns.

    When a whole night is published, its page of later changes is removed.
    """
    text = html(page)
    try:
        for day in page.log_dates:
            _write_text(spark, docs_path(page.root, day, page.phase), text)
            if page.outcome != REFUSED and not page.is_of_parts:  # its rows were replaced
                _remove(spark, docs_path(page.root, day, f"{page.phase}{LATER}"))
    except Py4JError as error:  # the outcome of a gate matters more than its page
        _LOG.warning("data docs of %s could not be written: %s", page.phase, str(error).splitlines()[0])


def html(page: Page) -> str:
    """Return a page as self-contained HTML."""
    text = project_file("jobs", "gates", "quality.html").read_text(encoding="utf-8")
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(text)
    return template.render(page=page, phases=PHASE_NAMES, policy=of_inline(text))


def _write_text(spark: SparkSession, path: str, text: str) -> None:
    """Write or replace a file."""
    store, target = _located(spark, path)
    stream = store.create(target)  # replaces
    try:
        stream.write(bytearray(text.encode()))
    finally:
        stream.close()


def _remove(spark: SparkSession, path: str) -> None:
    """Remove a file, if it exists."""
    store, target = _located(spark, path)
    store.delete(target, False)  # noqa: FBT003  # Java takes it by place: not what is below a folder


def _located(spark: SparkSession, path: str) -> tuple[JavaObject, JavaObject]:
    """Hadoop's file system and path: the same access as Spark's readers and writers."""
    context, jvm = spark.sparkContext, cast("JVMView", spark._jvm)  # noqa: SLF001  # no public way to a store
    target = jvm.org.apache.hadoop.fs.Path(path)
    return target.getFileSystem(context._jsc.hadoopConfiguration()), target  # noqa: SLF001  # the same
