"""Summary of a night for its log, for its page in the data docs, and for the DAG."""

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final

from jobs.entry_points.run_summary import Summary
from jobs.gates.watch import Notice, coverage, lost_fraction
from jobs.report.links import INDEX_NAME, command, docs_path
from jobs.report.wording import counted
from jobs.runtime.places import is_url
from jobs.runtime.plural import plural
from jobs.runtime.settings import REPORT
from jobs.warehouse.tables import Warehouse
from schemas import vocabulary as words
from schemas.tables import TABLES
from schemas.vocabulary import Exit

COUNTED: Final = (*words.INGESTED_TABLES, *words.RESULT_TABLES, *words.FLEET_TABLES)
WARNED: Final = "warning: "
"""Prefix of those lines of a summary that are warnings."""
_LEADS: Final = ("changes", "drain", "mitigations")
"""Kinds of sentences at the beginning of a summary."""


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
