"""The whole that a run is part of, on its page: which role the others wait for, what a faster one returns."""

from collections.abc import Sequence
from typing import Final

from jobs.report import wording
from jobs.report.rows import Row, UnitTables
from jobs.report.section import Section
from schemas.role_tables import LEAST_ITERATIONS, MOST_ITERATIONS, MOST_ROLES
from schemas.vocabulary import ROLE_STEP

_COLUMNS: Final = (
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


def whole(tables: UnitTables) -> Section | None:
    """Return the section of the whole; None for a run that is part of none."""
    part_of = tables.job.get("part_of")
    if part_of is None:
        return None
    says = f"This run is part of {part_of}, as its {tables.job['role'] or 'unnamed role'}."
    if not tables.further.get(ROLE_STEP):
        says += (
            " The figures of the whole leave it out: its manifest states no role, or no iterations of its "
            "steps, or its log has no absolute times of this day (t0_us)."
        )
    answered = [row for row in tables.roles if row["whole_s"] is not None]
    return Section(
        "whole",
        "The whole that this run is part of",
        f"{says} {_found(tables.roles, answered)}",
        _COLUMNS,
        [_row(row) for row in answered],
    )


def _found(roles: Sequence[Row], answered: Sequence[Row]) -> str:
    """What was found of the whole, or why nothing."""
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
        f"others waited for the {most['role']}. Who waits for whom is inferred from their order."
        " The last columns say what the whole saves if one role alone is faster (in brackets: GPU-hours);"
        " savings of several roles do not add up."
    )


def _row(row: Row) -> Sequence[str]:
    others = [*row["waits_for"], *(f"{role} of the iteration before" for role in row["waits_for_before"])]
    left_out = f", {row['runs_left_out']} left out" if row["runs_left_out"] else ""
    return (
        f"{row['role']}, waits for {', '.join(others) or 'no other'}",
        f"{row['runs']}{left_out}",
        wording.seconds(row["busy_s"]),
        wording.seconds(row["waiting_s"]),
        wording.seconds(row["waited_for_s"]),
        f"{row['iterations_waited_for']:,}",
        *(_returned(row, name) for name in ("if_fixed", "if_ideal", "if_twice_as_fast")),
    )


def _returned(row: Row, name: str) -> str:
    """What a role returns to the whole: the share, and GPU-hours where they are known."""
    fraction, hours = row[f"saved_fraction_{name}"], row[f"saved_gpu_hours_{name}"]
    if fraction is None:
        return wording.MISSING
    return wording.percent(fraction) + ("" if hours is None else f" ({wording.hours(hours)})")
