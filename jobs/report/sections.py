"""Optional sections of a job's page, for units with rows in the tables of FURTHER_TABLES."""

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from jobs.report import cause_words, loss, wording
from jobs.report.rows import Row, UnitTables
from schemas.role_tables import LEAST_ITERATIONS, MOST_ITERATIONS, MOST_ROLES
from schemas.vocabulary import (
    EXPOSED_COMMUNICATION,
    GPU_TYPE_SLOWDOWN,
    JOB_TIME,
    MITIGATIONS,
    ROLE_STEP,
    Scope,
)

_SPENT_ON: Final = {
    "kept": "steps that stayed",
    "lost_work": "steps done again after a restart, or still to be done again",
    "outage": "outages, from a failure to the next start",
    "startup": "start-ups, until the first step",
    "checkpoint": "checkpoints",
    "evaluation": "evaluations",
    "data_loading": "loads of data, between steps",
    "unknown": "not known",
}
_KEPT: Final = ("productive", "straggling", "late_start")
"""Parts of job_time that are steps that stayed; only the waterfall shows what was lost of these steps."""
_TIMES: Final = (
    ("busy", "busy_s"),
    ("exposed", "exposed_s"),
    ("hidden", "hidden_s"),
    ("overlap saves at most", "overlap_saved_s"),
)
"""Columns of the section on exposed communication: head, and column of exposed_communication."""
_OF_ROLES: Final = (
    "role",
    "runs",
    "busy",
    "waits itself",
    "on the longest path",
    "iterations waited for",
    "causes fixed",
    "ideal",
    "twice as fast",
)


class Section(NamedTuple):
    """A section of a page: title, a few sentences, and a table unless it has no rows.

    name    : anchor, unique on the page
    columns : heads of the table's columns; the first names the row, the others are numbers
    rows    : cells as texts
    chart   : id of the chart above the table, one of job_charts.charts; empty for none
    table   : table whose entry in the data dictionary explains the figures; empty for none
    """

    name: str
    title: str
    says: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    chart: str = ""
    table: str = ""


def effective_time(tables: UnitTables) -> Section | None:
    """Return the section on effective time; None if the unit has no events."""
    if not tables.further.get(JOB_TIME):
        return None
    (row,) = tables.further[JOB_TIME]
    scheduled = row["scheduled_gpu_hours"]
    ettr, ideal = (wording.percent(row[name]) for name in ("ettr", "productive_fraction"))
    counts = ", ".join(wording.counted(row[f"{name}s"], name) for name in ("start", "failure", "checkpoint"))
    says = (
        f"Effective training time ratio: {ettr} of {wording.hours(scheduled)} GPU-hours went into steps that "
        f"stayed, which were not done again. At the paper's ideal, {ideal} would have been enough for these "
        f"steps; such GPU-hours are called productive. {counts}."
    )
    if row["contradictions"]:
        says += f" Contradictions among its events: {row['contradictions']}; time around them is not known."
    kept = sum(row[f"{name}_gpu_hours"] for name in _KEPT)
    hours = {name: kept if name == "kept" else row[f"{name}_gpu_hours"] for name in _SPENT_ON}
    texts = [
        (_SPENT_ON[name], wording.hours(part), wording.percent(part / scheduled))
        for name, part in hours.items()
    ]
    heads = ("GPU-hours spent on", "GPU-hours", "share")
    return Section("effective-time", "How its GPU-hours were spent", says, heads, texts)


def whole(tables: UnitTables) -> Section | None:
    """Return the section on the whole, the jobs that wait for each other; None for a job on its own."""
    part_of = tables.job.get("part_of")
    if part_of is None:
        return None
    says = f"This run is part of {part_of}, as its {tables.job['role'] or 'unnamed role'}."
    if not tables.further.get(ROLE_STEP):
        says += (
            " The figures of the whole leave it out, because its manifest states no role, or no iterations "
            "of its steps, or its log has no absolute times of this day (t0_us)."
        )
    answered = [row for row in tables.roles if row["whole_s"] is not None]
    cells = []
    for row in answered:
        others = [*row["waits_for"], *(f"{role} of the iteration before" for role in row["waits_for_before"])]
        left_out = f", {row['runs_left_out']} left out" if row["runs_left_out"] else ""
        cells.append(
            (
                f"{row['role']}, waits for {', '.join(others) or 'no other'}",
                f"{row['runs']}{left_out}",
                wording.seconds(row["busy_s"]),
                wording.seconds(row["waiting_s"]),
                wording.seconds(row["waited_for_s"]),
                f"{row['iterations_waited_for']:,}",
                *(_returned(row, name) for name in ("if_fixed", "if_ideal", "if_twice_as_fast")),
            )
        )
    return Section(
        "whole",
        "The whole that this run is part of",
        f"{says} {_found_of_whole(tables.roles, answered)}",
        _OF_ROLES,
        cells,
    )


def _found_of_whole(roles: Sequence[Row], answered: Sequence[Row]) -> str:
    """Return sentences on the role that the other roles wait for most, or on why that role is not known.

    roles, answered : rows of role_effect of the whole, and those of them that have an answer.
    """
    if not roles:
        return "Only a night can say which role the others wait for: it needs the logs of all runs."
    if not answered:
        return (
            f"The whole has no answer: fewer than {LEAST_ITERATIONS} of its iterations were recorded "
            f"with absolute times, or it has more than {MOST_ITERATIONS:,} iterations or {MOST_ROLES} roles."
        )
    most = max(answered, key=lambda row: (row["waited_for_s"], row["role"]))
    share = wording.percent(most["waited_for_s"] / most["whole_s"])
    return (
        f"Its recorded iterations took {wording.seconds(most['whole_s'])}, and for {share} of that time the "
        f"others waited for the {most['role']}. Waits between roles are inferred from their order."
        " The last columns say what the whole saves if one role alone is faster (in brackets: GPU-hours);"
        " savings of several roles do not add up."
    )


def _returned(row: Row, name: str) -> str:
    """Return the time that a faster role would save, as a fraction, with GPU-hours if they are known."""
    fraction, hours = row[f"saved_fraction_{name}"], row[f"saved_gpu_hours_{name}"]
    if fraction is None:
        return wording.MISSING
    return wording.percent(fraction) + ("" if hours is None else f" ({wording.hours(hours)})")


def gpu_types(tables: UnitTables) -> Section | None:
    """Return the section on the cost of mixed GPU types; None for a unit with one type."""
    rows = tables.further.get(GPU_TYPE_SLOWDOWN, ())
    if not rows:
        return None
    saved = rows[0]["time_saved_fraction"]
    says = (
        f"If all workers were as fast as those on the fastest type, and all else as recorded, "
        f"{loss.of_unit(saved, rows[0]['saved_gpu_hours'])} would be saved. "
        if saved is not None
        else ""
    )
    return Section(
        "gpu-types",
        "Types of GPU",
        f"{says}Times as long: usual duration of computes divided by that on the fastest type in the same "
        "stages; in brackets if the difference is within the noise. Slowdown: of a replay in which workers "
        "on this type are as recorded and all else is ideal.",
        ("type", "workers", "hosts", "forward", "backward", "times as long", "slowdown"),
        [
            (
                row["gpu_type"],
                wording.number(row["workers"]),
                wording.number(row["hosts"]),
                wording.seconds(row["forward_ideal_s"]),
                wording.seconds(row["backward_ideal_s"]),
                wording.ratio(row["factor"])
                if row["is_slower"] or row["factor"] in (None, 1.0)
                else f"({wording.ratio(row['factor'])})",
                wording.ratio(row["slowdown"]),
            )
            for row in sorted(rows, key=lambda row: row["factor"] or math.inf)
        ],
    )


def exposed_section(tables: UnitTables) -> Section | None:
    """Return the section on exposed communication, largest op type first; None if it is not known."""
    rows = tables.further.get(EXPOSED_COMMUNICATION, ())
    of_job = [row for row in rows if row["scope"] == Scope.JOB]
    if not of_job:
        return None
    of_types = [row for row in rows if row["scope"] == Scope.OP_TYPE]
    hours, step_s = tables.job["gpu_hours"], tables.job["actual_step_s"]
    shares = [of_job[0][name] / step_s for name in ("exposed_s", "overlap_saved_s")]
    waits, returns = (loss.of_unit(each, None if hours is None else hours * each) for each in shares)
    return Section(
        "communication",
        "Communication that lengthens steps",
        f"Waiting for communication takes {waits}. Perfect overlap with computes would save at most "
        f"{returns}. Exposed: the time by which communication lengthens a step. Busy: the communication time "
        "of the worker that communicates most, or the exposed time if that is longer. Hidden: the part of "
        "busy that lengthens no step. Op types may run at the same time, so rows do not add up.",
        ("per step", *(title for title, _ in _TIMES)),
        [
            (
                "all communication" if row["scope"] == Scope.JOB else row["op_type"],
                *(wording.seconds(row[name]) for _, name in _TIMES),
            )
            for row in (*of_job, *sorted(of_types, key=lambda row: -float(row["exposed_s"])))
        ],
    )


def mitigations(tables: UnitTables) -> Section | None:
    """Return the section on what mitigations save, largest saving first; None if none was replayed."""
    rows = tables.further.get(MITIGATIONS, ())
    if not rows:
        return None
    return Section(
        cause_words.ANCHOR,
        "What can be done, by replay",
        "A fix removes a cause completely; a mitigation changes only what can be changed in practice. "
        "Savings of several mitigations do not add up; one with a saving below 0 costs more time than it "
        "saves. Removing a replica also frees its GPUs.",
        ("what to do", "saves", "GPU-hours"),
        [
            (
                f"{row['mitigation']}: {row['plan']}. Assumes: {row['assumes']}",
                wording.percent(row["time_saved_fraction"]),
                wording.hours(row["gpu_hours_saved"]),
            )
            for row in sorted(rows, key=lambda row: -float(row["time_saved_fraction"]))
        ],
        table=MITIGATIONS,
    )


SECTIONS: Final[tuple[Callable[[UnitTables], Section | None], ...]] = (
    mitigations,
    effective_time,
    whole,
    gpu_types,
    exposed_section,
)
"""Sections in the order of the page; each returns None if the unit's logs cannot answer it."""
