"""Reads a landing by Spark's executors: whole units packed into tasks, each file opened once, no shuffle."""

import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from pyspark.sql import SparkSession

from jobs.landing.accounts import Keys, UnitAccount, UnitPart, join_gpu_types, whole_unit
from jobs.landing.content import UnitFiles
from jobs.landing.files import LandedFile, Landing
from jobs.landing.formats.rows import Bounds, FileError
from jobs.landing.read_unit import read_unit
from jobs.landing.staging import StagedFile, Staging, sweep
from jobs.landing.stores import store_of
from schemas.unit import Unit

_TASK_BYTES: Final = 128 << 20
"""Bytes of JSON that one task reads: 3 million ops, 40 MB of Parquet. A larger unit is split by its files."""

_LARGE_UNIT: Final = 2 * _TASK_BYTES
_TASKS_OF_A_CORE: Final = 2
_DIGESTED_TOGETHER: Final = 200
_PACKED: Final = 6
"""Bytes of JSON in a packed byte, about."""


Digests: TypeAlias = Callable[[str, Sequence[LandedFile]], Mapping[str, str]]
"""Type of `digests`: takes a landing's root and some of its files, returns their SHA-256 by source_file."""


class Where(NamedTuple):
    """The landing to read, the root under which a run stages its rows, and the limits of files."""

    landing: str
    staging: str
    run: str
    bounds: Bounds


class LandedUnits(NamedTuple):
    """Accounts of units, or parts of them, and the files in which their rows and rejects are staged."""

    accounts: list[UnitAccount]
    staged: list[StagedFile]


def read_landing(spark: SparkSession, landing: Landing, where: Where) -> LandedUnits:
    """Read every unit of the landing. A task that fails, or runs twice, leaves no staged files."""
    days = {unit[0] for unit in landing.units}
    try:
        found = _read(spark, landing, where)
    except BaseException:
        sweep(where.staging, where.run, days)
        raise
    sweep(where.staging, where.run, days, found.staged)
    return found


def _read(spark: SparkSession, landing: Landing, where: Where) -> LandedUnits:
    cores = spark.sparkContext.defaultParallelism
    tasks = tasks_of(landing.units, cores * _TASKS_OF_A_CORE, where.bounds)
    done = _run(spark, tasks, where)
    split = [place for place, task in enumerate(tasks) if not task[0].is_only]
    again = _overlaps(tasks, done, split)
    redone = _run(spark, [[part] for part in again.values()], where)
    for place, one in zip(again, redone, strict=True):
        done[place] = one
    join_gpu_types([account for place in split for account in done[place].accounts])
    accounts = [account for each in done for account in each.accounts]
    return LandedUnits(accounts, [file for each in done for file in each.staged])


def digests_by(spark: SparkSession, landing: str, files: Sequence[LandedFile]) -> dict[str, str]:
    """SHA-256 of files' contents, as `digests`, by Spark's executors."""
    starts = range(0, len(files), _DIGESTED_TOGETHER)
    parts = [pickle.dumps(files[start : start + _DIGESTED_TOGETHER]) for start in starts]
    if not parts:
        return {}
    found = spark.sparkContext.parallelize(parts, len(parts)).map(partial(_digests_of, landing)).collect()
    return {name: digest for each in found for name, digest in each.items()}


def _digests_of(landing: str, files: bytes) -> dict[str, str]:
    return digests(landing, pickle.loads(files))  # noqa: S301  # from the driver


def digests(landing: str, files: Sequence[LandedFile]) -> dict[str, str]:
    """SHA-256 of files' contents, by source_file; without files that cannot be read."""
    opener, found = UnitFiles(store_of(landing), Bounds()), {}
    for file in files:
        with suppress(FileError):
            found[file.source_file] = opener.digest(file)
    return found


def tasks_of(units: Mapping[Unit, Sequence[LandedFile]], least: int, bounds: Bounds) -> list[list[UnitPart]]:
    """Pack units into tasks of about equal bytes: neighbours together, at least `least` tasks if possible.

    A large unit is split into tasks of its own, by files.
    """
    parts = [whole_unit(unit, files, bounds) for unit, files in units.items()]
    small = [part for part in parts if _bytes(part.logs) <= _LARGE_UNIT]
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
    return tasks + [[piece] for part in parts if _bytes(part.logs) > _LARGE_UNIT for piece in _split(part)]


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


def _run(spark: SparkSession, tasks: Sequence[Sequence[UnitPart]], where: Where) -> list[LandedUnits]:
    """Run each task on a worker."""
    if not tasks:
        return []
    sent = spark.sparkContext.parallelize([pickle.dumps(task) for task in tasks], len(tasks))
    return [pickle.loads(done) for done in sent.map(partial(_task, where)).collect()]  # noqa: S301  # our own


def _task(where: Where, task: bytes) -> bytes:
    store, staging = store_of(where.landing), Staging(where.staging, where.run)
    parts: list[UnitPart] = pickle.loads(task)  # noqa: S301  # from the driver
    accounts = [read_unit(store, part, where.bounds, staging) for part in parts]
    return pickle.dumps(LandedUnits(accounts, staging.close()))


def _overlaps(
    tasks: Sequence[Sequence[UnitPart]], done: Sequence[LandedUnits], split: Sequence[int]
) -> dict[int, UnitPart]:
    """Parts of split units with rows that an earlier part has too, and the rows they must leave out.

    Files of one unit usually have different ranks; otherwise the first by file and line stays.
    """
    taken: dict[Unit, Keys] = {}
    again = {}
    for place in split:
        (part,), (account,) = tasks[place], done[place].accounts
        before = taken.setdefault(part.unit, {})
        both = before.keys() & account.keys.keys()
        if both:
            again[place] = replace(part, taken={key: before[key] for key in both})
        taken[part.unit] = account.keys | before
    return again
