"""The section of a job's page on communication that workers wait for."""

from jobs.report import loss, wording
from jobs.report.rows import Row, UnitTables
from jobs.report.section import Section
from schemas.vocabulary import EXPOSED_COMMUNICATION, SCOPE_JOB, SCOPE_OP_TYPE


def exposed_section(tables: UnitTables) -> Section | None:
    """What all communication and each op type costs a step, the dearest first."""
    rows = tables.further.get(EXPOSED_COMMUNICATION, ())
    of_job = [row for row in rows if row["scope"] == SCOPE_JOB]
    if not of_job:
        return None
    of_types = [row for row in rows if row["scope"] == SCOPE_OP_TYPE]
    waits, returns = (_of_unit(tables.job, of_job[0][name]) for name in ("exposed_s", "overlap_saved_s"))
    return Section(
        "communication",
        "Communication that lengthens steps",
        f"Waiting for communication takes {waits}. Perfect overlap with computes would return at most "
        f"{returns}. Busy: the time of the worker that communicates most, or the wait if that is longer. "
        "Hidden: the part of busy that lengthens no step. Op types may run at the same time, so rows do not "
        "add up.",
        ("per step", "busy", "exposed", "hidden", "overlap returns at most"),
        [_cells(row) for row in (*of_job, *sorted(of_types, key=lambda row: -float(row["exposed_s"])))],
    )


def _cells(row: Row) -> tuple[str, ...]:
    name = "all communication" if row["scope"] == SCOPE_JOB else row["op_type"]
    times_s = (row[each] for each in ("busy_s", "exposed_s", "hidden_s", "overlap_saved_s"))
    return name, *map(wording.seconds, times_s)


def _of_unit(job: Row, time_s: float) -> str:
    """Seconds of a step as a part of the unit, and in GPU-hours where it states them."""
    share = time_s / job["actual_step_s"]
    return loss.of_unit(share, None if job["gpu_hours"] is None else job["gpu_hours"] * share)
