"""Data docs: what the gates held of one night, a page per phase, kept beside the tables."""

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
from jobs.report.names import docs_path
from jobs.report.policy import of_inline
from jobs.runtime.project import project_file
from schemas.table import Severity
from schemas.tables import TABLES
from schemas.vocabulary import PHASE_NAMES

LATER: Final = "-later"
"""Ends the names of pages of what changes of a night when it is over."""

REFUSED: Final = "refused"
"""Outcome of a page that tells of rows that were not published."""

_OF_EVERY_TABLE: Final = {
    SCHEMA_EXPECTATION: "has the columns and types that its declaration names, and no others",
    KEY_EXPECTATION: "no two rows have the same key",
    ON_TIME_EXPECTATION: "rows are of the days, or the units, computed",
}

_LOG: Final = logging.getLogger(__name__)
_RELEASE: Final = "python -m jobs.release_night"


@dataclass(frozen=True)
class Check:
    """One thing that was held.

    rows : that break it
    is_released : somebody let them through
    named : what it is called where somebody does; empty where nobody can
    severity : whether rows that break it are refused
    log_dates : of the rows that break it; none where any day may be meant
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
        """One word for it."""
        if not self.rows:
            return "held"
        if self.severity == "warns":
            return "warning"
        return "released" if self.is_released else REFUSED


@dataclass(frozen=True)
class TableChecks:
    """What was held of the rows of one table, or across several."""

    table: str
    meaning: str
    rows: int | None
    checks: Sequence[Check]

    @property
    def broken(self) -> list[Check]:
        """Checks that did not hold."""
        return [check for check in self.checks if check.rows]


@dataclass(frozen=True)
class Page:
    """All that one page says: which phase of which days, how it ended and what was held.

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
        """Whether it is about some units or tables of its days, which lies beside the page of the whole."""
        return self.phase.endswith(LATER)

    @property
    def broken(self) -> list[Check]:
        """Checks of all tables that did not hold, and refuse their rows."""
        return [check for table in self.tables for check in table.broken if check.severity == "refuses"]

    @property
    def releases(self) -> list[str]:
        """Commands by which somebody lets all of it through, day by day; none where that is not possible."""
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
        """One word for all tables."""
        if not self.broken:
            return "held"
        return "released by hand" if all(check.is_released for check in self.broken) else REFUSED


def table_checks(
    rows: Mapping[str, int], rules: Sequence[Rule], refusals: Sequence[Refusal], released: Collection[str]
) -> list[TableChecks]:
    """What the gates of a phase held, table by table, and last what only several tables together show.

    rows : of each table
    released : names of refusals that somebody let through
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
    """Write a page for each of its days; what goes wrong with that is a warning, and no more.

    Where the whole of a night was published, the page of what had changed of it since goes.
    """
    text = html(page)
    try:
        for day in page.log_dates:
            _write_text(spark, docs_path(page.root, day, page.phase), text)
            if page.outcome != REFUSED and not page.is_of_parts:  # of rows that are no more
                _remove(spark, docs_path(page.root, day, f"{page.phase}{LATER}"))
    except Py4JError as error:  # what a gate says matters more than its page
        _LOG.warning("data docs of %s could not be written: %s", page.phase, str(error).splitlines()[0])


def html(page: Page) -> str:
    """Return a page as HTML that needs nothing else."""
    text = project_file("jobs", "gates", "quality.html").read_text(encoding="utf-8")
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(text)
    return template.render(page=page, phases=PHASE_NAMES, policy=of_inline(text))


def _write_text(spark: SparkSession, path: str, text: str) -> None:
    """Write a file, in the place of one that was there."""
    store, target = _located(spark, path)
    stream = store.create(target)  # which replaces
    try:
        stream.write(bytearray(text.encode()))
    finally:
        stream.close()


def _remove(spark: SparkSession, path: str) -> None:
    """Remove a file, where it is there."""
    store, target = _located(spark, path)
    store.delete(target, False)  # noqa: FBT003  # Java takes it by place: not what is below a folder


def _located(spark: SparkSession, path: str) -> tuple[JavaObject, JavaObject]:
    """Hadoop's file system and path: the store is asked as Spark's readers and writers ask it."""
    context, jvm = spark.sparkContext, cast("JVMView", spark._jvm)  # noqa: SLF001  # no public way to a store
    target = jvm.org.apache.hadoop.fs.Path(path)
    return target.getFileSystem(context._jsc.hadoopConfiguration()), target  # noqa: SLF001  # the same
