"""Reader of a landing on Spark's executors, in tasks of several units or of a part of a large unit."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa
from pyspark.sql import SparkSession

from jobs.landing.accounts import (
    Keys,
    Repeats,
    UnitAccount,
    UnitPart,
    jobs_of,
    join_parts,
    spread_failures,
    whole_unit,
)
from jobs.landing.content import UnitFiles
from jobs.landing.files import LandedFile, Landing
from jobs.landing.formats.rows import Bounds, FileError
from jobs.landing.rank_steps import merged
from jobs.landing.read_unit import read_unit, unread_unit
from jobs.landing.stores import store_of
from jobs.runtime.memory import go_first
from jobs.runtime.one_by_one import is_again, one_by_one
from jobs.warehouse.file_frames import in_tasks
from jobs.warehouse.staging import STAGED_TABLES, StagedFile, Staging, swept
from schemas.unit import Unit
from schemas.vocabulary import UNIT_KEY

_TASK_BYTES: Final = 128 << 20
"""Bytes of JSON that one task reads: about 3 million ops, which take 40 MB as Parquet."""

_LARGE_UNIT: Final = 2 * _TASK_BYTES
"""Several tasks share the files of a unit with more bytes of JSON."""
_TASKS_OF_A_CORE: Final = 2
_DIGESTED_TOGETHER: Final = 200
_PACKED: Final = 6
"""Bytes of JSON in a packed byte, approximately."""


Digests: TypeAlias = Callable[[str, Sequence[LandedFile]], Mapping[str, str]]
"""Type of `digests`: takes a landing's root and some of its files, returns their SHA-256 by source_file."""


class Where(NamedTuple):
    """Paths and limits for reading: the landing, the staging root, and bounds on files."""

    landing: str
    staging: str
    run: str
    bounds: Bounds


class LandedUnits(NamedTuple):
    """Accounts of units or parts of units, and the files that stage their rows and rejects.

    jobs : rows of the table jobs, removed from the accounts because Python objects take ten times the memory
    """

    accounts: list[UnitAccount]
    staged: list[StagedFile]
    jobs: pa.Table


def read_landing(spark: SparkSession, landing: Landing, where: Where) -> LandedUnits:
    """Read every unit of the landing. Failed or repeated tasks leave no staged files."""
    days = {unit[0] for unit in landing.units}
    context = spark.sparkContext
    with swept(where.staging, where.run, STAGED_TABLES, days) as kept:
        tasks = tasks_of(landing.units, context.defaultParallelism * _TASKS_OF_A_CORE, where.bounds)
        done = in_tasks(context, tasks, partial(_task, where))
        split = [place for place, task in enumerate(tasks) if not task[0].is_only]
        parts = {place: tasks[place][0] for place in split}
        for find in (_overlaps, _suspected):
            again = find(parts, {place: done[place].accounts[0] for place in split})
            parts |= again
            redone = in_tasks(context, [[part] for part in again.values()], partial(_task, where))
            for place, one in zip(again, redone, strict=True):
                done[place] = one
        joined = [done[place].accounts[0] for place in split]
        for place, account in zip(split, joined, strict=True):  # the first part of a unit has its row of jobs
            for row in done[place].jobs.drop_columns(list(UNIT_KEY)).to_pylist(maps_as_pydicts="strict"):
                account.job = row
        join_parts(joined)
        spread_failures(joined)
        whole = (each.jobs for place, each in enumerate(done) if place not in parts)
        jobs = pa.concat_tables([jobs_of(joined), *whole])
        accounts = [account for each in done for account in each.accounts]
        staged = [file for each in done for file in each.staged]
        kept.extend(staged)
    return LandedUnits(accounts, staged, jobs)


def _landed(account: UnitAccount) -> LandedUnits:
    """Return a part's account as it is sent to the driver, with its row of jobs in a table."""
    spread_failures([account])
    jobs, account.job = jobs_of([account]), None
    return LandedUnits([account], [], jobs)


def digests_by(spark: SparkSession, landing: str, files: Sequence[LandedFile]) -> dict[str, str]:
    """Return the SHA-256 of files by source_file, computed on Spark's executors."""
    starts = range(0, len(files), _DIGESTED_TOGETHER)
    parts = [files[start : start + _DIGESTED_TOGETHER] for start in starts]
    found = in_tasks(spark.sparkContext, parts, partial(digests, landing))
    return {name: digest for each in found for name, digest in each.items()}


def digests(landing: str, files: Sequence[LandedFile]) -> dict[str, str]:
    """Return the SHA-256 of files by source_file; unreadable files are left out."""
    opener, found = UnitFiles(store_of(landing), Bounds()), {}
    for file in files:
        with suppress(FileError):
            found[file.source_file] = opener.digest(file)
    return found


def tasks_of(units: Mapping[Unit, Sequence[LandedFile]], least: int, bounds: Bounds) -> list[list[UnitPart]]:
    """Pack units, in order, into tasks of about equal bytes; make at least `least` tasks if possible.

    A large unit is split into tasks of its own, by files.
    """
    parts = [whole_unit(unit, files, bounds) for unit, files in units.items()]
    small = [part for part in parts if not _is_large(part)]
    total = sum(_bytes([*part.logs, *part.evidence]) for part in small)
    most = min(_TASK_BYTES, total // least + 1)
    tasks: list[list[UnitPart]] = []
    filled = most
    for part in small:
        size = _bytes([*part.logs, *part.evidence])
        if not tasks or filled + size / 2 > most:
            tasks.append([])
            filled = 0
        tasks[-1].append(part)
        filled += size
    return tasks + [[piece] for part in parts if _is_large(part) for piece in _split(part)]


def _is_large(part: UnitPart) -> bool:
    """Return whether several tasks read a unit; never a day's health, because its files share checks."""
    return _bytes(part.logs) > _LARGE_UNIT and not part.unit.is_of_day


def _split(part: UnitPart) -> Iterable[UnitPart]:
    pieces: list[list[LandedFile]] = [[]]
    for file in part.logs:
        if pieces[-1] and not part.is_foreign and _bytes([*pieces[-1], file]) > _TASK_BYTES:
            pieces.append([])
        pieces[-1].append(file)
    for place, files in enumerate(pieces):
        found = replace(part, logs=files, is_only=len(pieces) == 1)
        yield replace(found, evidence=(), events=(), surplus=(), is_first=False) if place else found


def _bytes(files: Iterable[LandedFile]) -> int:
    return sum(file.size * (_PACKED if file.name.endswith((".gz", ".zst")) else 1) for file in files)


def _task(where: Where, parts: Sequence[UnitPart]) -> LandedUnits:
    store, staging = store_of(where.landing), Staging(where.staging, where.run)
    go_first()
    if is_again():
        done = [
            each
            if isinstance(each, LandedUnits)
            else _landed(unread_unit(store, part, where.bounds, staging, each.why))
            for part, each in zip(parts, one_by_one(partial(_alone, where), parts), strict=True)
        ]
    else:
        done = [_landed(read_unit(store, part, where.bounds, staging)) for part in parts]
    accounts = [account for each in done for account in each.accounts]
    staged = [file for each in done for file in each.staged]
    # One chunk instead of one for each unit: a chunk's buffers for all columns take 60 kB in the driver.
    jobs = pa.concat_tables(each.jobs for each in done).combine_chunks()
    return LandedUnits(accounts, [*staged, *staging.close()], jobs)


def _alone(where: Where, part: UnitPart) -> LandedUnits:
    """Read one part, with a staging of its own, because this function runs in a separate process."""
    staging = Staging(where.staging, where.run)
    found = _landed(read_unit(store_of(where.landing), part, where.bounds, staging))
    return found._replace(staged=staging.close())


def _overlaps(parts: Mapping[int, UnitPart], accounts: Mapping[int, UnitAccount]) -> dict[int, UnitPart]:
    """Return parts that repeat a (rank, step) of an earlier part of their unit, with these keys in `taken`.

    Files of one unit usually have different ranks; if not, the first row by file and line is stored.
    """
    taken: dict[Unit, Keys] = {}
    again = {}
    for place, part in parts.items():
        keys, before = accounts[place].keys, taken.setdefault(part.unit, {})
        both = before.keys() & keys.keys()
        if both:
            again[place] = replace(part, taken={key: before[key] for key in both})
        taken[part.unit] = keys | before
    return again


def _suspected(parts: Mapping[int, UnitPart], accounts: Mapping[int, UnitAccount]) -> dict[int, UnitPart]:
    """Return parts whose rows a later part of their unit repeats, with those digests in `suspected`."""
    said: dict[Unit, Repeats] = {}
    for place, part in parts.items():
        repeated = {key: files for key, files in accounts[place].repeats.items() if key in part.taken}
        said[part.unit] = merged(said.get(part.unit, {}), repeated)
    again = {}
    for place, part in parts.items():
        mine = {key: files for key, files in said[part.unit].items() if key in accounts[place].keys}
        if mine:
            again[place] = replace(part, suspected=mine)
    return again
