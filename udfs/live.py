"""Live tables of a run in progress: its latest window of steps, and times at which causes begin and end."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from schemas import vocabulary
from schemas.vocabulary import JOB_CAUSES, JOB_SLOWDOWN, STEP_SLOWDOWN, Status

Row = dict[str, Any]

_OF_RESULTS: Final = (
    "status",
    "status_detail",
    "slowdown",
    "actual_step_s",
    "world_size",
    "simulator_version",
)
"""Columns of job_slowdown that live_slowdown has too."""


def window_row(results: Mapping[str, pa.Table], rows: pa.Table) -> Row:
    """Return a window's row of live_slowdown, without the run's key and the columns on rank logs read.

    results : tables that the simulation of the window returned. rows : the window's rows of rank_steps
    """
    job: Row
    (job,) = results[JOB_SLOWDOWN].select(_OF_RESULTS).to_pylist()
    replayed = results[STEP_SLOWDOWN]["step"]
    steps = replayed if len(replayed) else rows["step"]
    first, last = pc.min(steps).as_py(), pc.max(steps).as_py()
    times = {f"{name}_time": _began(rows, step) for name, step in (("first", first), ("last", last))}
    lost = pc.sum(results[JOB_CAUSES]["lost_fraction"]).as_py() if job["status"] == Status.ANALYSED else None
    return job | {
        "steps": len(replayed),
        "first_step": first,
        "last_step": last,
        **times,
        "lost_fraction": lost,
    }


def _began(rows: pa.Table, step: int | None) -> datetime | None:
    """Return the time at which a step began on the rank that began first; None if no rank states it."""
    at_us = None if step is None else pc.min(rows.filter(pc.equal(rows["step"], step))["t0_us"]).as_py()
    try:
        return datetime.fromtimestamp(at_us / 1e6, UTC) if at_us else None
    except (OverflowError, ValueError, OSError):  # beyond the year 9999; platforms raise different errors
        return None


def causes_after(window: Row, causes: Iterable[Row], before: Sequence[Row]) -> list[Row]:
    """Return all rows of live_causes of a run after one more window.

    window, causes : the window's row of live_slowdown, and its rows of job_causes
    before  : the run's rows of live_causes before this window
    returns : all rows; is_warned is false for causes that begin or end in this window
    """
    if window["status"] != Status.ANALYSED:
        return list(before)
    found = {(row["cause"], row["first_step"]): row for row in before}
    goes_on = {row["cause"]: row for row in before if row["is_now"]}
    holds = [row for row in causes if row["is_cause"] and row["cause"] != vocabulary.CAUSE_UNEXPLAINED]
    for row in holds:
        so_far = goes_on.pop(row["cause"], None)
        if so_far is None and row["lost_fraction"] < vocabulary.NEWS_FRACTION:
            continue
        began = so_far or _edge(row, window, "first") | {"cause": row["cause"], "is_warned": False}
        key = row["cause"], began["first_step"]
        seen = {name: row[name] for name in ("lost_fraction", "culprits")}
        found[key] = began | seen | _edge(row, window, "last") | {"is_now": True}
    ended = {
        (row["cause"], row["first_step"]): row | {"is_now": False, "is_warned": False}
        for row in goes_on.values()
    }
    return [*(found | ended).values()]


def _edge(cause: Row, window: Row, which: Literal["first", "last"]) -> Row:
    """Return the first or the last step of a cause within a window, and the time when this step began."""
    step, sign = f"{which}_step", 1 if which == "first" else -1
    known = [each for each in cause["culprits"] if each[step] is not None]
    edge = min(known, key=lambda each: sign * each[step], default=window)
    return {name: edge[name] for name in (step, f"{which}_time")}
