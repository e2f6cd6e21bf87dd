"""SQL templates with $placeholders; the comment at the top of a file is the meaning of its view or query."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from importlib.resources import files
from itertools import takewhile
from string import Template
from typing import Final

from schemas import groups, vocabulary
from schemas.drain import DrainTerms
from schemas.intervals import half_of_sum, variance
from schemas.job_causes import SUMS_OF_HOURS, sum_of_stated
from schemas.table import sql_strings
from schemas.vocabulary import TABLE_NAMES, Status

ALL_DAYS: Final = "true"
OF_PERIOD: Final = "log_date BETWEEN :first_day AND :last_day"
"""Values of $in_period: a view covers all days, a named query those of a period, both ends included."""

VIEW_NAMES: Final = (
    "ops", "job_days", "fleet_month", "cause_month", "fix_parts", "fix_first", "straggling_jobs",
    "job_history", "host_record", "host_recurrence", "drain", "culprit_history", "cause_news",
    "fix_outcome", "host_clocks", "effective_time", "effective_time_month", "effective_time_job",
    "effective_time_window", "exposed_month", "slower_than_before", "waterfall", "health_predicts",
    "slow_with_clean_health",
)  # fmt: skip
"""Names of the views, in the order in which they are created: a view may read only earlier views."""

_OPEN: Final = (date(1000, 1, 1), date(9999, 12, 31))
"""First and last day of a period that is open at both ends: the years must have four digits."""

FUNNEL: Final = (Status.FAILED, *(status for status in vocabulary.STATUSES if status != Status.FAILED))
"""Statuses, sorted by how far the analysis of a unit went; `failed` first, as it says nothing about a run."""

WORDS: Final[Mapping[str, str]] = {
    "op_names": sql_strings(vocabulary.OP_TYPES),
    "causes": sql_strings(vocabulary.CAUSES),
    "statuses": f"array({sql_strings(FUNNEL)})",
    "replayed_statuses": sql_strings(vocabulary.REPLAYED_STATUSES),
    "is_analysed": groups.IS_ANALYSED,
    "is_straggling": groups.IS_STRAGGLING,
    "unexplained": sql_strings([vocabulary.CAUSE_UNEXPLAINED]),
    "news_fraction": repr(vocabulary.NEWS_FRACTION),
    "machine_causes": sql_strings(vocabulary.MACHINE_CAUSES),
    "spread_causes": sql_strings(vocabulary.SPREAD_CAUSES),
    "not_stated": sql_strings([vocabulary.NOT_STATED]),
    "slower_than_before": repr(vocabulary.SLOWER_THAN_BEFORE),
    "straggling_slowdown": repr(vocabulary.STRAGGLING_SLOWDOWN),
    "size_bucket": groups.SIZE_BUCKET,
    "groups": groups.GROUPS,
    "is_worker_driven": groups.IS_WORKER_DRIVEN,
    "is_stage_driven": groups.IS_STAGE_DRIVEN,
    "is_sequence_driven": groups.IS_SEQUENCE_DRIVEN,
    **{
        f"variance_of_{name}": variance(f"{name}_gpu_hours_half_width", f"{name}_gpu_hours_shared")
        for name in ("lost", "recoverable")
    },
    **{
        f"half_of_{name}": half_of_sum(
            *(f"sum({each}_of_{name})" for each in ("variances", "fourths", "shared"))
        )
        for name in ("lost", "recoverable")
    },
    **{f"sum_of_{name}": sql for name, sql in SUMS_OF_HOURS.items()},
    "lost_gpu_hours_of_days": sum_of_stated("lost_gpu_hours", "lost_s > 0"),
    "gpu_hours_of_figure": sum_of_stated("gpu_hours", "seconds <> 0"),
    **DrainTerms().words,
}
"""Values of $placeholders in views and queries."""


@dataclass(frozen=True)
class SqlFile:
    """A view, a named query or a recipe of the cookbook: its name, SQL, and meaning (a recipe's question)."""

    name: str
    meaning: str
    sql: str

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the tables and views that the SQL itself names after FROM and JOIN."""
        words = set(re.findall(r"\b(?:FROM|JOIN)\s+(\w+)", self.sql))
        return tuple(name for name in (*TABLE_NAMES, *VIEW_NAMES) if name in words)

    def over(self, first_day: date | None = None, last_day: date | None = None) -> str:
        """Return a named query's SQL for the days from first_day to last_day; None leaves an end open.

        Dates replace the parameters in the text, because Spark 4.2 ignores parameters within a WITH.
        """
        first, last = first_day or _OPEN[0], last_day or _OPEN[1]
        return self.sql.replace(":first_day", f"DATE'{first}'").replace(":last_day", f"DATE'{last}'")


def load(package: str, name: str, **words: str) -> SqlFile:
    """Load an SQL file of a package, also from a zip, and fill in its placeholders from WORDS and `words`."""
    raw = files(package).joinpath(f"{name}.sql").read_text(encoding="utf-8")
    text = Template(raw).substitute({**WORDS, **words})
    comment = list(takewhile(lambda line: line.startswith("--"), text.splitlines()))
    meaning = " ".join(line.removeprefix("--").strip() for line in comment)
    return SqlFile(name, meaning, "\n".join(text.splitlines()[len(comment) :]))


def runs_include(run: str, in_period: str) -> str:
    """Return the SQL of runs.sql, a query with one row per run, for a WITH clause.

    run : columns that identify a run, separated by commas
    in_period : condition on log_date
    """
    return load("schemas", "runs", run=run, in_period=in_period).sql


def within(in_period: str) -> dict[str, str]:
    """Return the values of the placeholders that depend on the period."""
    return {
        "in_period": in_period,
        "slow_links": load("schemas", "slow_links", in_period=in_period).sql,
    }


def first_sentence(text: str) -> str:
    """Return the first sentence of a text, with its full stop."""
    return text.split(". ", maxsplit=1)[0].removesuffix(".") + "."
