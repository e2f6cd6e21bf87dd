"""Run summaries: JSON that says what a run did; the task of a DAG publishes this as its XCom."""

import json
import os
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final

from jobs.entry_points.run_log import work_of_phases
from jobs.runtime.arguments import option
from schemas.vocabulary import TABLE_NAMES

Summary = dict[str, Any]

_VARIABLE: Final = "WHAT_IF_SUMMARY"


def _file_to_be(name: str) -> str | None:
    """Return the file for the summary: the named file, else the one in the environment, else None.

    Raises ValueError, before the run starts, if no such file can be written.
    """
    name = name or os.environ.get(_VARIABLE, "")
    if name and (not os.access(Path(name).parent, os.W_OK) or Path(name).is_dir()):
        raise ValueError(f"{name}: no file can be written there")
    return name or None


SUMMARY: Final = option(
    "--summary FILE",
    f"also write a summary of the run to this file, as JSON (default: ${_VARIABLE})",
    _file_to_be,
    default="",
)


def leave(summary: Summary, file: str | None) -> None:
    """Write a summary if a file for it was named."""
    if file:
        Path(file).write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")


def of_history(
    log_dates: Sequence[date], counts: Mapping[str, int], *, dry_run: bool = False, is_beside: bool = False
) -> Summary:
    """Return a summary: days, rows published per table, and the work of each phase.

    log_dates : days on which the run had work
    is_beside : whether the results are in a new warehouse, beside the unchanged current one
    """
    phases = work_of_phases(counts)
    return {
        "days": [day.isoformat() for day in sorted(log_dates)],
        "rows": {name: count for name, count in counts.items() if name in TABLE_NAMES},
        "phases": phases,
        "stages": phases,
        "dry_run": dry_run,
        "is_current": not (dry_run or is_beside),
    }
