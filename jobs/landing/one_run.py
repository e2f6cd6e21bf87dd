"""Reader of single runs from a folder, without a landing, into the rows that a daily run would store."""

import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from jobs.landing.accounts import UnitAccount, whole_unit
from jobs.landing.files import (
    EVENTS,
    HEALTH,
    LOGS,
    MANIFEST,
    META,
    PACKED_RANK_LOG,
    RANK_LOG,
    TRACE,
    LandedFile,
    inputs_of,
    spelled,
)
from jobs.landing.formats.rows import Bounds
from jobs.landing.formats.strict_json import is_text
from jobs.landing.read_foreign import EMPTY, NOT_KNOWN
from jobs.landing.read_unit import read_unit
from jobs.landing.stores import store_of
from jobs.runtime.errors import PlainError, WrongInputError
from jobs.runtime.nearest import missing_folder
from jobs.warehouse.staging import STAGED_TABLES, Staging
from schemas.tables import TABLES
from schemas.unit import Unit

_IN_LANDING: Final = re.compile(r"log_date=(\d{4}-\d\d-\d\d)/job_id=([^/]+)/run_id=([^/]+)$")
_OF_DAY: Final = re.compile(r"log_date=\d{4}-\d\d-\d\d")
_SOME_UNIT: Final = Unit(date.min, "?", "?")
"""Stands for ids that are not known yet; with empty ids every file would pass for a day's health."""
_LONGEST_LINE: Final = 16_000_000
_TRIED: Final = 3
"""Most logs, and most lines of each log, in which the ids are looked for: a line may be truncated."""
_LISTED: Final = 5
"""Most files of a folder that an error names, if none of them is a log."""


class NoRunError(WrongInputError):
    """Raised for a folder without a run; the message says what was expected and what was found."""


class NotLogsError(PlainError):
    """Raised for a folder whose files are not logs of a known format."""


class Run(NamedTuple):
    """A run folder and its files.

    has_day : whether the folder names the log date; else `unit` has the date of the newest file
    ignored : names of the folder's files that are not read
    """

    unit: Unit
    folder: str
    files: list[LandedFile]
    has_day: bool
    ignored: Sequence[str] = ()


class ReadRun(NamedTuple):
    """A run as read: its account, and its staged rows."""

    account: UnitAccount
    rows: pa.Table
    rejects: pa.Table
    arrivals: pa.Table
    events: pa.Table


def runs_in(path: Path) -> list[Run]:
    """Return the runs in or below a folder, or the run of a single file.

    Raises NoRunError for a folder without a run, and for a file that is only a part of a run; PermissionError
    for a folder that cannot be listed.
    """
    if not path.exists():
        raise NoRunError(missing_folder(str(path)))
    root = path if path.is_dir() else path.parent
    store = store_of(str(root))
    store.folders()  # raises PermissionError, while `walk` finds nothing
    if path != root:
        _check_whole(path)
    by_folder: dict[tuple[str, ...], list[LandedFile]] = {}
    others: dict[tuple[str, ...], list[str]] = {}
    seen = []
    for entry in store.walk("."):
        *folders, name = (spelled(each) for each in entry.names)
        is_other = path != root and [*folders, name] != [path.name]
        if is_other or any(each.startswith(("_", ".")) for each in folders):
            continue
        seen.append("/".join((*folders, name)))
        file = LandedFile(*_SOME_UNIT, f"./{name}", entry.path, entry.size, entry.modified_us, entry.defect)
        # A day's folder holds files for all of its runs, such as the health of hosts.
        is_of_day = file.is_one_of(*HEALTH) and _OF_DAY.fullmatch([root.resolve().name, *folders][-1])
        if file.is_input and not is_of_day:
            by_folder.setdefault(tuple(folders), []).append(file)
        else:
            others.setdefault(tuple(folders), []).append(name)
        if path != root:
            break
    runs = [
        _run(root.resolve().joinpath(*folders), files, others.get(folders, ()))
        for folders, files in sorted(by_folder.items())
    ]
    if not runs:
        found = ", ".join(sorted(seen)[:_LISTED]) + (", ..." if len(seen) > _LISTED else "")
        raise NoRunError(
            f"{path} holds no run: looked for {', '.join(LOGS)} "
            f"or logs of another tool (*.json, *.jsonl, *.log); found {found or 'no file'}"
        )
    return runs


def one_run_in(path: Path) -> Run:
    """Return the run in or below a folder, as runs_in does; raise NoRunError if there are several runs."""
    runs = runs_in(path)
    if len(runs) > 1:
        raise NoRunError(f"{path} holds {len(runs)} runs: name the folder of one")
    return runs[0]


def _check_whole(file: Path) -> None:
    """Raise NoRunError for a manifest or file of events, and for the log of a single rank of several."""
    if any(map(file.match, (MANIFEST, META, *EVENTS))):
        raise NoRunError(f"{file} is not a log of ops: give its folder instead, {file.parent}")
    ranks = (RANK_LOG, PACKED_RANK_LOG)
    if any(map(file.match, ranks)) and any(
        each.name == MANIFEST or (each.name != file.name and any(map(each.match, ranks)))
        for each in file.parent.iterdir()
    ):
        raise NoRunError(f"{file} is the log of a single rank: give the run's folder, {file.parent}")


def check_known(run: Run, read: ReadRun) -> None:
    """Raise NotLogsError if no file has a known format, unless a manifest or a folder's name states a run."""
    is_named = run.has_day or any(file.is_one_of(MANIFEST) for file in run.files)
    why = {*read.rejects["detail"].to_pylist()}
    if is_named or read.rows.num_rows or not why or not why <= {NOT_KNOWN, EMPTY}:
        return
    names = [file.name for file in run.files]
    found = ", ".join(names[:_LISTED]) + (", ..." if len(names) > _LISTED else "")
    raise NotLogsError(
        f"{run.folder} holds no run: no file has a known format; found {found}; "
        "jobs/landing/formats/README.md lists the formats that are read"
    )


def run_of(folder: Path, files: Iterable[Path]) -> Run:
    """Return the run that these files form. Raises NoRunError if several files have the same name."""
    landed, names = [], Counter[str]()
    for file in dict.fromkeys(each.absolute() for each in files):
        names[file.name] += 1
        if names[file.name] > 1:
            raise NoRunError(f"{file.name} is the name of several files of one run: give each its own")
        found, path, name = file.stat(), str(file.resolve()), f"./{spelled(file.name)}"
        modified_us = found.st_mtime_ns // 1000
        landed.append(LandedFile(*_SOME_UNIT, name, path, found.st_size, modified_us))
    return _run(folder, landed)


def read_run(run: Run, bounds: Bounds) -> ReadRun:
    """Read a run with the landing's strict reader."""
    part = whole_unit(run.unit, run.files, bounds)
    store = store_of("/")  # a link in the run's folder may lead to another folder
    return read_staged(lambda staging: read_unit(store, part, bounds, staging))


def read_staged(read: Callable[[Staging], UnitAccount]) -> ReadRun:
    """Return the rows that `read` stages in a temporary folder."""
    with TemporaryDirectory(prefix="straggler-") as folder:
        staging = Staging(folder, "run")
        account = read(staging)
        found = {name: [TABLES[name].arrow_schema.empty_table()] for name in STAGED_TABLES}
        for file in staging.close():
            rows = pq.read_table(f"{folder}/{file.table}/{file.path}", partitioning=None)
            found[file.table] = [*found[file.table], rows]
    return ReadRun(account, *(pa.concat_tables(tables[1:] or tables) for tables in found.values()))


def _run(folder: Path, files: list[LandedFile], others: Iterable[str] = ()) -> Run:
    found = _IN_LANDING.search(str(folder))
    if found is not None:
        unit = Unit(date.fromisoformat(found[1]), found[2], found[3])
    else:
        newest = max(file.modified_us for file in files) or folder.stat().st_mtime_ns // 1000
        # The ids are those that the manifest states, or else a log, or else the folder's name.
        ids = {"job_id": spelled(folder.name) or "job", "run_id": "run"}
        manifests = [file for file in files if file.is_one_of(MANIFEST)]
        logs = [file for file in files if file.is_one_of(*LOGS) and not file.is_one_of(TRACE)]
        for some in (logs[:_TRIED], manifests):
            fields = next(filter(None, map(_fields, some)), {})
            ids |= {name: fields[name] for name in ids if is_text(fields.get(name))}
        unit = Unit(datetime.fromtimestamp(newest / 1e6, UTC).date(), ids["job_id"], ids["run_id"])
    place = found[0] if found is not None else spelled(folder.name)
    mine = [
        LandedFile(*unit, f"{place}/{file.name}", file.path, file.size, file.modified_us, file.defect)
        for file in files
    ]
    inputs = inputs_of(mine)
    ignored = sorted([*others, *(file.name for file in mine if file not in inputs)])
    return Run(unit, str(folder), sorted(inputs), found is not None, ignored)


def _fields(file: LandedFile) -> dict[str, Any] | None:
    """Return the fields of a manifest, or of a log's first JSON object; None if they cannot be read."""
    if file.defect:
        return None
    with suppress(OSError, EOFError, zlib.error):
        with gzip.open(file.path) if file.name.endswith(".gz") else Path(file.path).open("rb") as opened:
            is_log = not file.is_one_of(MANIFEST)
            texts = [opened.readline(_LONGEST_LINE) for _ in range(_TRIED)] if is_log else [opened.read()]
        for text in texts:
            with suppress(ValueError, RecursionError):
                found = json.loads(text)
                if isinstance(found, dict):
                    return found
    return None
