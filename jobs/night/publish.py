"""Publish: check the tables of the given days against each other, log a summary, write the reports.

Each phase has checked its own tables before they became visible. This phase checks what only several tables
together can show: that the fleet's counts and causes are those of the ingested units. All runs that make
tables end with this phase: nights, backfills, late data, and releases of another version.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any, Final

from pyspark.sql import SparkSession

from jobs.entry_points.run_log import work_of_phases
from jobs.entry_points.run_summary import Summary
from jobs.gates.quality_docs import Page, write_docs
from jobs.gates.result_rules import DAY_RULES
from jobs.gates.watch import RULE_BROKEN, Notice, night_warnings
from jobs.gates.write_audit_publish import publish
from jobs.history.fingerprints import record
from jobs.history.records import Records
from jobs.night.night_summary import COUNTED, WARNED, night_summary, phases_of, summary_lines
from jobs.reading.spark_reader import reader_beside
from jobs.report import news_words as news
from jobs.report.cause_words import mitigation_texts, mitigations_of
from jobs.report.write import write_reports
from jobs.runtime.plural import plural
from jobs.runtime.settings import Settings
from jobs.warehouse.publication import publication
from jobs.warehouse.reader import Reader
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.views import drain_by
from schemas.vocabulary import CAUSE_DAY, FLEET_DAY, JOB_CAUSES, JOBS, PIPELINE_RUNS, UNIT_FINGERPRINTS, Phase

_LOG: Final = logging.getLogger(__name__)
_MOST_DRAINS: Final = 3
"""Most hosts to drain that a night's summary names."""


def summaries(
    spark: SparkSession,
    settings: Settings,
    log_dates: Sequence[date],
    with_report: Collection[date] = (),
    work: Mapping[str, int] | None = None,
    warned: Sequence[Notice] = (),
) -> list[Summary]:
    """Check these days across phases, write reports, and log and return a summary of each night.

    with_report : days that get a report; existing reports of other days are written anew
    work : counts of this run's phases; None if each phase was a run of its own, whose counts are in
        pipeline_runs
    warned : further warnings of the days with a report
    """
    warehouse = Warehouse.of(spark, settings)
    done = Records(warehouse, settings, log_dates, phase=Phase.AGGREGATE).built_on(Phase.PUBLISH)
    names = (FLEET_DAY, CAUSE_DAY, JOBS, JOB_CAUSES)
    tables = {name: warehouse.rows(TABLES[name], log_dates) for name in names}
    rules = [rule(tables) for rule in DAY_RULES]
    checked = publish(Phase.PUBLISH, warehouse, {}, log_dates, rules).page
    with reader_beside(warehouse) as reader:
        write_reports(reader, settings, log_dates, with_report)
        leads = {day: lead(reader, settings, warehouse.root, day) for day in log_dates}
    with publication(warehouse, Phase.PUBLISH, log_dates, [UNIT_FINGERPRINTS]):  # after the reports
        record(warehouse, Phase.PUBLISH, done, log_dates, None)
    notices = night_warnings(warehouse, settings.watch, log_dates)
    if work is None:
        runs = warehouse.rows(TABLES[PIPELINE_RUNS]).to_pylist()
        phases = {day: phases_of(runs, day) for day in log_dates}
    else:  # the counts of days that were run as one batch cannot be split
        phases = {day: work_of_phases(work) if [*with_report] == [day] else [] for day in log_dates}
    counted = {name: warehouse.rows_by_day(TABLES[name], log_dates) for name in COUNTED}
    found = []
    for day in sorted(log_dates):
        rows = {name: by_day.get(day, 0) for name, by_day in counted.items()}
        said = [*(warned if day in with_report else ()), *notices[day], *_warnings(checked, day)]
        summary = night_summary(warehouse, day, said, settings.report_folder, rows, phases[day])
        summary |= leads[day]
        _write_page(warehouse, replace(checked, log_dates=[day]), summary)
        found.append(summary)
    return found


def lead(reader: Reader, settings: Settings, root: str, day: date) -> Summary:
    """Return the first sentences of a night's summary: changes, drains, mitigations, units not analysed."""

    def rows(sql: str) -> list[dict[str, Any]]:
        return list(reader.rows(sql).to_pylist())

    return {
        "changes": [
            *news.news_texts(rows(news.news_of(day))),
            *news.step_change_texts(rows(news.step_changes_of(day))),
            *news.outcome_texts(rows(news.outcomes_of(day))),
        ],
        "drain": news.drain_texts(
            rows(drain_by(settings.drain.terms, day)), settings.drain.days, _MOST_DRAINS
        ),
        "mitigations": mitigation_texts(rows(mitigations_of(day)), root),
        "not_analysed": news.not_analysed_texts(rows(news.not_analysed_of(day))),
    }


def _warnings(page: Page, day: date) -> list[Notice]:
    return [
        Notice(RULE_BROKEN, f"{day}: {check.table}: {check.meaning}: broken by {plural(check.rows, 'row')}")
        for table in page.tables
        for check in table.checks
        if check.warns and day in (check.log_dates or [day])
    ]


def _write_page(warehouse: Warehouse, page: Page, summary: Summary) -> None:
    texts = [warning["text"] for warning in summary["warnings"]]
    figures = {
        name: value for name, value in summary.items() if name not in {"warnings", "rows", "phases", "stages"}
    }
    figures |= {f"rows of {name}": count for name, count in summary["rows"].items()}
    write_docs(warehouse, replace(page, figures=figures, warnings=texts))
    for line in summary_lines(summary):
        warned = line.removeprefix(WARNED)  # the log has levels instead
        _LOG.log(logging.INFO if warned == line else logging.WARNING, warned)
