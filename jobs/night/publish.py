"""Publish: check the tables of the given days against each other, log a summary, write the reports.

Each phase has checked its own tables before they became visible. This phase checks what only several tables
together can show: that the fleet's counts and causes are those of the ingested units. All runs that make
tables end with this phase: nights, backfills, late data, and releases of another version.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from jobs.entry_points.run_log import work_of_phases
from jobs.entry_points.run_summary import Summary
from jobs.gates.quality_docs import Page, write_docs
from jobs.gates.result_rules import DAY_RULES
from jobs.gates.watch import RULE_BROKEN, Notice, coverage, lost_fraction, night_warnings
from jobs.gates.write_audit_publish import publish
from jobs.history.fingerprints import record
from jobs.history.records import Records
from jobs.reading.spark_reader import reader_beside
from jobs.report import news_words as news
from jobs.report.cause_words import mitigation_texts, mitigations_of
from jobs.report.links import INDEX_NAME, command, docs_path
from jobs.report.wording import counted
from jobs.report.write import write_reports
from jobs.runtime.places import is_url
from jobs.runtime.plural import plural
from jobs.runtime.settings import REPORT, Settings
from jobs.warehouse.publication import publication
from jobs.warehouse.reader import Reader
from jobs.warehouse.tables import Warehouse
from schemas import vocabulary as words
from schemas.tables import TABLES
from schemas.views import drain_by
from schemas.vocabulary import Exit, Phase

_LOG: Final = logging.getLogger(__name__)
_MOST_DRAINS: Final = 3
"""Most hosts to drain that a night's summary names."""
COUNTED: Final = (*words.INGESTED_TABLES, *words.RESULT_TABLES, *words.FLEET_TABLES)
WARNED: Final = "warning: "
"""Prefix of those lines of a summary that are warnings."""
_LEADS: Final = ("changes", "drain", "mitigations")
"""Kinds of sentences at the beginning of a summary."""


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
    names = (words.FLEET_DAY, words.CAUSE_DAY, words.JOBS, words.JOB_CAUSES)
    tables = {name: warehouse.rows(TABLES[name], log_dates) for name in names}
    rules = [rule(tables) for rule in DAY_RULES]
    checked = publish(Phase.PUBLISH, warehouse, {}, log_dates, rules).page
    with reader_beside(warehouse) as reader:
        write_reports(reader, settings, log_dates, with_report)
        leads = {day: lead(reader, settings, warehouse.root, day) for day in log_dates}
    with publication(warehouse, Phase.PUBLISH, log_dates, [words.UNIT_FINGERPRINTS]):  # after the reports
        record(warehouse, Phase.PUBLISH, done, log_dates, None)
    notices = night_warnings(warehouse, settings.watch, log_dates)
    if work is None:
        runs = warehouse.rows(TABLES[words.PIPELINE_RUNS]).to_pylist()
        phases = {day: phases_of(runs, day) for day in log_dates}
    else:  # the counts of days that were run as one batch cannot be split
        phases = {day: work_of_phases(work) if [*with_report] == [day] else [] for day in log_dates}
    counts = {name: warehouse.rows_by_day(TABLES[name], log_dates) for name in COUNTED}
    found = []
    for day in sorted(log_dates):
        rows = {name: by_day.get(day, 0) for name, by_day in counts.items()}
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


def night_summary(
    warehouse: Warehouse,
    log_date: date,
    notices: list[Notice],
    report_folder: Path | None,
    rows: Mapping[str, int],
    phases: Sequence[Mapping[str, Any]],
) -> Summary:
    """Return the summary of a published night from its tables; missing figures are null.

    rows : number of the night's rows, by table
    phases : what each phase of the night did, as in pipeline_runs
    """
    found = warehouse.rows(TABLES[words.FLEET_DAY], [log_date]).to_pylist()
    fleet = found[0] if found else None
    report = f"{warehouse.root}/{REPORT}/{INDEX_NAME}" if is_url(warehouse.root) else None
    if report_folder is not None:
        index = report_folder / INDEX_NAME
        report = str(index) if index.is_file() else None
    return {
        "log_date": log_date.isoformat(),
        "units": fleet["jobs"] if fleet else 0,
        "by_status": {status: fleet[status] for status in words.STATUSES if fleet[status]} if fleet else {},
        "coverage_fraction": coverage(fleet) if fleet else None,
        "straggling": fleet["straggling"] if fleet else 0,
        "lost_fraction": lost_fraction(fleet) if fleet else None,
        "lost_gpu_hours": fleet["lost_gpu_hours"] if fleet else None,
        "analysed_gpu_hours": fleet["analysed_gpu_hours"] if fleet else None,
        "rows": {name: rows[name] for name in COUNTED},
        "phases": phases,
        "stages": phases,
        "warnings": [notice._asdict() for notice in notices],
        "data_docs": docs_path(warehouse.root, log_date, "publish"),
        "report": report if fleet or report_folder else None,
        "ask_next": f'{command("query", warehouse.root)} "SELECT * FROM fix_first LIMIT 5"',
    }


def summary_lines(summary: Mapping[str, Any]) -> list[str]:
    """Return a summary as lines: changes, actions, figures, warnings, pages, and commands to try next."""
    day = summary["log_date"]
    rows = ", ".join(f"{name} {count:,}" for name, count in summary["rows"].items())
    lines = [
        *(f"{day}: {text}" for name in _LEADS for text in summary.get(name, ())),
        f"{day}: {_figures(summary)}",
        *(f"{day}: {text}" for text in summary.get("not_analysed", ())),
        *(f"{day}: {_of_phase(phase)}" for phase in summary["phases"]),
        f"{day}: rows: {rows}",
        *(f"{WARNED}{warning['text']}" for warning in summary["warnings"]),
        f"data docs: {summary['data_docs']}",
    ]
    report = [f"report: {summary['report']}"] if summary["report"] else []
    return [*lines, *report, f"ask next: {summary['ask_next']}"]


def _figures(summary: Mapping[str, Any]) -> str:
    if not summary["units"]:
        return "no units"
    statuses = ", ".join(f"{count} {status}" for status, count in summary["by_status"].items())
    units, rejects = plural(summary["units"], "unit"), plural(summary["rows"][words.REJECTS], "reject")
    text = f"{units} ({statuses}); {summary['straggling']} straggling; {rejects}"
    if summary["lost_fraction"] is None:
        return text
    share = f"{summary['lost_fraction']:.1%}"
    if summary["lost_gpu_hours"] is None:
        return f"{text}; {share} of the time lost"
    lost, of = summary["lost_gpu_hours"], summary["analysed_gpu_hours"]
    return f"{text}; {lost:.1f} of {of:.1f} GPU-hours lost ({share})"


def _of_phase(phase: Mapping[str, Any]) -> str:
    took = f"{phase['phase']} took {phase['seconds']:.1f} s"
    if phase["gate_seconds"] is None:
        return took
    share = phase["gate_seconds"] / phase["seconds"] if phase["seconds"] else 0.0
    gates = f"{phase['expectations']} expectations checked in {phase['gate_seconds']:.1f} s ({share:.0%})"
    released = f", {counted(phase['released'], 'refusal')} released by hand" if phase["released"] else ""
    return f"{took}; gates: {gates}{released}"


def phases_of(runs: Sequence[Mapping[str, Any]], log_date: date) -> list[dict[str, Any]]:
    """Return the work of each phase in its latest completed run for this night alone.

    runs : rows of pipeline_runs
    """
    done = [
        run for run in runs if run["log_date"] == log_date and run["outcome"] == words.RUN_OUTCOMES[Exit.DONE]
    ]
    done.sort(key=lambda run: run["started_at"])
    # A run of an earlier version did not count the work of its gates.
    unknown = dict.fromkeys(("gate_seconds", "expectations", "released"))
    latest = {
        each["stage"]: {"phase": each["stage"], **unknown, **each}
        for run in done
        for each in run["stages"] or ()
    }
    return [latest[phase] for phase in words.PHASE_NAMES if phase in latest]
