"""Units of the warehouse: texts that name them, such as JOB/RUN@DAY, and the rows of one unit."""

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import date
from typing import Any, Final, NamedTuple

import pyarrow as pa

from jobs.runtime.arguments import Arguments, log_date
from jobs.runtime.nearest import suggestion
from jobs.runtime.places import copied_first, is_url
from jobs.runtime.progress import working
from jobs.warehouse.reader import NO_TABLES, AnswerError, QuestionError, Reader, on_units
from schemas.table import sql_strings
from schemas.unit import Unit
from schemas.vocabulary import JOB_CAUSES, JOB_SLOWDOWN, JOBS, RANK_STEPS, UNIT_KEY
from udfs.errors import NoSuchStepError, NothingToReplayError, TraceError
from udfs.simulate.unit_batches import SIMULATED_COLUMNS, SIMULATED_SCHEMA

_ON_DAYS: Final = re.compile(r"(?P<of>.+)@(?P<first>[^@.]+)(?:\.\.(?P<last>[^@.]+))?")


class NoSuchUnitError(QuestionError):
    """Raised when arguments match no unit of the warehouse, or several units; the message lists them."""


class NotReplayedError(AnswerError):
    """Raised when the requested unit cannot be replayed; the message says why."""


class Asked(NamedTuple):
    """The job, run and days that a text names.

    run_id      : None for all runs of the job.
    first, last : first and last day, both included; None for all days.
    """

    text: str
    job_id: str
    run_id: str | None = None
    first: date | None = None
    last: date | None = None


def asked(text: str) -> Asked:
    """Parse JOB or JOB/RUN, also with @DAY or @DAY..DAY. Raises ValueError for an invalid day or a URL."""
    if is_url(text):
        raise ValueError(copied_first(text))
    found = _ON_DAYS.fullmatch(text)
    of, first, last = (text, None, None) if found is None else found.group("of", "first", "last")
    job_id, is_run, run_id = of.partition("/")
    days = None if first is None else (log_date(first), log_date(last or first))
    return Asked(text, job_id, run_id if is_run else None, *(days or (None, None)))


def find_unit(reader: Reader, job_id: str, run_id: str | None = None, day: date | None = None) -> Unit:
    """Return the unit that the arguments name, on the latest day that matches if no day is given.

    job_id : a job, or a text such as JOB/RUN, JOB@DAY or JOB/RUN@DAY
    Raises NoSuchUnitError if no unit matches, or if several runs match on that day.
    """
    units = units_of(reader, job_id)
    if not units and (of := asked_one(job_id, run_id, day)).job_id != job_id:
        return find_unit(reader, of.job_id, of.run_id, of.first)
    if not units:
        if not (names := job_ids(reader)):
            raise NoSuchUnitError(f"no jobs in {reader.root}: {NO_TABLES}")
        raise NoSuchUnitError(f"no job {job_id}: {suggestion(job_id, names)}")
    fitting = [unit for unit in units if run_id in (None, unit.run_id) and day in (None, unit.log_date)]
    if not fitting:
        missing = "nothing" if run_id is None else f"no run {run_id}"
        when = "" if day is None else f" on {day}"
        raise NoSuchUnitError(f"job {job_id} has {missing}{when}: it has {_listed(units)}")
    latest = max(unit.log_date for unit in fitting)
    of_latest = [unit for unit in fitting if unit.log_date == latest]
    if len(of_latest) > 1:
        raise NoSuchUnitError(
            f"job {job_id} has several runs, name one as {job_id}/RUN: {_listed(of_latest)}"
        )
    return of_latest[0]


def units_of(reader: Reader, job_id: str) -> list[Unit]:
    """Return the units of a job, sorted by day."""
    key = ", ".join(UNIT_KEY)
    rows = reader.rows(f"SELECT DISTINCT {key} FROM {JOBS} WHERE job_id = {sql_strings([job_id])}")
    return sorted(Unit(**row) for row in rows.to_pylist())


def job_ids(reader: Reader) -> list[str]:
    """Return the names of all jobs."""
    found = reader.rows(f"SELECT DISTINCT job_id FROM {JOBS} ORDER BY job_id")
    return [str(name) for name in found["job_id"].to_pylist()]


def asked_one(text: str, run_id: str | None, day: date | None) -> Asked:
    """Parse a text that names one unit; its run and day may be given as arguments instead.

    Raises NoSuchUnitError for several days, for a run or day that differs from the argument, and for texts
    that `asked` cannot parse.
    """
    try:
        of = asked(text)
    except ValueError as error:
        raise NoSuchUnitError(str(error)) from None
    if of.first != of.last:
        raise NoSuchUnitError(f"{text} names several days, but only one unit is asked for")
    for what, named, beside in (("run", of.run_id, run_id), ("day", of.first, day)):
        if named and beside not in (None, named):
            raise NoSuchUnitError(
                f"{text} names the {what} {named}, and {beside} is given beside it: "
                "name one unit, as JOB/RUN@DAY"
            )
    return of._replace(run_id=of.run_id or run_id, first=of.first or day, last=of.first or day)


def _listed(units: Collection[Unit]) -> str:
    return ", ".join(sorted(f"run {unit.run_id} on {unit.log_date}" for unit in units))


def read_unit(reader: Reader, unit: Unit) -> tuple[pa.Table, dict[str, Any]]:
    """Return the unit's rows of rank_steps, with the columns that the simulation uses, and its manifest.

    Raises NothingToReplayError if the unit has no valid manifest.
    """
    is_unit = on_units([unit.log_date], [unit])
    (manifest,) = reader.rows(f"SELECT * FROM {JOBS} WHERE {is_unit}").to_pylist(maps_as_pydicts="strict")
    if manifest["manifest_status"] is not None:
        raise NothingToReplayError(f"{manifest['manifest_status']}: {manifest['manifest_detail']}")
    recorded = reader.rows(f"SELECT {', '.join(SIMULATED_COLUMNS)} FROM {RANK_STEPS} WHERE {is_unit}")
    return recorded.cast(SIMULATED_SCHEMA), manifest


class StoredCauses(NamedTuple):
    """A unit's row of job_slowdown, and its rows of job_causes."""

    job: dict[str, Any]
    causes: list[dict[str, Any]]


def read_causes(reader: Reader, unit: Unit) -> StoredCauses | None:
    """Read the stored results of a unit; return None if the unit is not simulated yet."""
    is_unit = on_units([unit.log_date], [unit])
    jobs, causes = (
        reader.rows(f"SELECT * FROM {name} WHERE {is_unit}").to_pylist(maps_as_pydicts="strict")
        for name in (JOB_SLOWDOWN, JOB_CAUSES)
    )
    return StoredCauses(jobs[0], causes) if jobs else None


@contextmanager
def unit_to_replay(
    name: str, reader: Reader, args: Arguments
) -> Iterator[tuple[Unit, pa.Table, dict[str, Any]]]:
    """Yield the unit that a command's arguments name, its rows of rank_steps and its manifest.

    Raises NoSuchUnitError as find_unit does, QuestionError if the unit lacks the step in the arguments, and
    NotReplayedError if the unit cannot be replayed.
    """
    unit = find_unit(reader, args.job_id, args.run_id, args.log_date)
    try:
        with working(f"{name}: replaying {unit.job_id}"):
            yield unit, *read_unit(reader, unit)
    except NoSuchStepError as error:
        raise QuestionError(str(error)) from error
    except (NothingToReplayError, TraceError) as error:
        raise NotReplayedError(str(error)) from error
