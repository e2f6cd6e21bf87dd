"""Files of the landing, with the unit and kind that follow from the names of folders and files."""

import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Final, NamedTuple

from jobs.landing.stores import Entry, store_of
from jobs.runtime.errors import WrongInputError
from jobs.runtime.nearest import missing_folder
from schemas.unit import Unit

RANK_LOG: Final = "rank-*.jsonl"
PACKED_RANK_LOG: Final = "rank-*.jsonl.gz"
TRACE: Final = "trace-*.parquet"
MANIFEST: Final = "job.json"
META: Final = "meta-*.yaml"
EVENTS: Final = ("events.jsonl", "events.jsonl.gz")
HEALTH: Final = ("health.jsonl", "health.jsonl.gz", "health-*.jsonl", "health-*.jsonl.gz")
"""Health of hosts, in a day's folder beside its runs."""
LOGS: Final = (RANK_LOG, PACKED_RANK_LOG, TRACE)
_OWN: Final = (*LOGS, MANIFEST, META, *EVENTS)
_OTHERS: Final = re.compile(
    r"(?:(?![._])(?!.*\.(?:tmp|part)\b)"
    r".*(?:\.(?:json|jsonl|ndjson|log|out|output|pkl|pickle|et)(?:\.gz|\.zst)?|trace_rank_\d+))|.*_dump_\d+"
)
"""Names that other tools' logs may have; contents show which tool. Unfinished uploads do not match."""

_EVIDENCE: Final = re.compile(r".*-pid\d+\.log(?:\.gz|\.zst)?")
"""Names of NCCL Inspector's logs, which may lie beside logs of this project's writer."""

_OF_RANK: Final = re.compile(r"rank-([0-9]{1,18})\.jsonl(?:\.gz)?")
_MARKER: Final = "_SUCCESS"
_RUN: Final = re.compile(r"job_id=([^/]+)/run_id=([^/]+)")
_DAY: Final = re.compile(r"log_date=(\d{4}-\d{2}-\d{2})")
_NEAREST: Final = 3
_NAMED: Final = 100
"""Most misplaced entries that are named; the others are counted."""


class NoLandingError(WrongInputError):
    """Raised if the landing does not exist; a landing without a folder for the day counts as an empty day."""


class LandedFile(NamedTuple):
    """File of a run folder: `path` opens the file in its store, `source_file` names it in tables.

    size : [B]
    modified_us : Unix time of its last change, by the store
    defect : why it cannot be read; empty if none is known
    owner, hard_links : its owner's user id, and how many names it has; None if the store does not report them
    """

    log_date: date
    job_id: str
    run_id: str
    source_file: str
    path: str
    size: int
    modified_us: int = 0
    defect: str = ""
    owner: int | None = None
    hard_links: int | None = None

    @property
    def unit(self) -> Unit:
        """Return the key of the unit that the file belongs to."""
        return Unit(self.log_date, self.job_id, self.run_id)

    @property
    def name(self) -> str:
        """Return the file name within the run folder."""
        return self.source_file.rsplit("/", 1)[-1]

    @property
    def rank(self) -> int | None:
        """Return the rank in a log's file name; None if the name has no rank."""
        found = _OF_RANK.fullmatch(self.name)
        return int(found[1]) if found else None

    @property
    def is_log_of_other_tool(self) -> bool:
        """Return whether another tool may have written a file of this name."""
        is_other = _OTHERS.fullmatch(self.name) is not None and not self.is_one_of(*_OWN)
        return is_other and not self.unit.is_of_day

    @property
    def is_log(self) -> bool:
        """Return whether the file is a log of ops, events or health; a manifest is not."""
        return self.is_one_of(*LOGS, *EVENTS) or self.is_log_of_other_tool or self.unit.is_of_day

    @property
    def is_input(self) -> bool:
        """Return whether files of this name are read."""
        return self.is_one_of(*_OWN) or self.is_log_of_other_tool or self.unit.is_of_day

    def is_one_of(self, *patterns: str) -> bool:
        """Return whether the name matches any of these patterns."""
        return any(fnmatchcase(self.name, pattern) for pattern in patterns)


@dataclass
class _Misplaced:
    """Entries that are not read: their number, and the names of the first."""

    count: int = 0
    named: list[str] = field(default_factory=list)

    def add(self, source_file: str, defect: str = "") -> None:
        self.count += 1
        if len(self.named) < _NAMED:
            self.named.append(f"{source_file} ({defect})" if defect else source_file)


class Landing:
    """The run folders of some days, or of some units, under a root.

    Raises NoLandingError if the root does not exist.
    """

    def __init__(self, root: str, log_dates: Sequence[date], units: Collection[Unit] | None = None) -> None:
        self.root = root
        self._store = store_of(root)
        if not self._store.is_there():
            missing = f"{root} does not exist" if "://" in root else missing_folder(root)
            raise NoLandingError(f"the landing {missing}")
        self._days = sorted(set(log_dates))
        self._only = None if units is None else set(units)

    @property
    def units(self) -> dict[Unit, list[LandedFile]]:
        """Return the files of every unit, sorted by name. Every run folder that holds a file is a unit.

        A day's health files are one unit, which comes before the runs of that day.
        """
        return self._listed[0]

    @property
    def misplaced(self) -> list[str]:
        """Return the names of the first entries in these days' folders that are not read."""
        return self._listed[1].named

    @property
    def misplaced_count(self) -> int:
        """Return the number of entries in these days' folders that are not read."""
        return self._listed[1].count

    def misplaced_text(self) -> str:
        """Return how many entries are not read, and the names of the first 100; "" if all are read."""
        if not self.misplaced_count:
            return ""
        named = ", ".join(self.misplaced) + (" and others" if self.misplaced_count > _NAMED else "")
        files_are = "1 file is" if self.misplaced_count == 1 else f"{self.misplaced_count} files are"
        return f"{files_are} misplaced and not read: {named}"

    @cached_property
    def _listed(self) -> tuple[dict[Unit, list[LandedFile]], "_Misplaced"]:
        units: dict[Unit, list[LandedFile]] = {}
        misplaced = _Misplaced()
        for day in self._days:
            seen: set[str] = set()
            for entry in self._store.walk(_folder(day)):
                unit = _unit(day, entry)
                if unit is not None and self._only is not None and unit not in self._only:
                    continue
                files = [] if unit is None else units.setdefault(unit, [])
                source_file = f"{_folder(day)}/{spelled('/'.join(entry.names))}"
                facts = (*(unit or Unit.of_day(day)), source_file, *entry[1:])
                file = LandedFile(*facts)
                if unit is not None and file.is_input and source_file not in seen:
                    files.append(file)
                    seen.add(source_file)
                elif entry.names != (_MARKER,):
                    misplaced.add(source_file, entry.defect)
        for files in units.values():
            inputs = inputs_of(files)
            for file in sorted(set(files).difference(inputs)):
                misplaced.add(file.source_file)
            files[:] = inputs
        return {unit: sorted(units[unit]) for unit in sorted(units)}, misplaced

    @cached_property
    def all_days(self) -> list[date]:
        """Return all days that have a folder, in order."""
        found = []
        for day in filter(None, map(_DAY.fullmatch, self._store.folders())):
            with suppress(ValueError):  # not a date, such as 30 February
                found.append(date.fromisoformat(day[1]))
        return sorted(found)

    def misnamed_text(self) -> str:
        """Name the folders whose names begin like a day's but are not valid; empty if there are none."""
        days = set(map(_folder, self.all_days))
        wrong = [name for name in self._store.folders() if name.startswith("log_date=") and name not in days]
        named = ", ".join(wrong[:_NAMED])
        said = "not read, because these names do not end in a date, as log_date=2026-01-05 does"
        return f"{said}: {named}" if wrong else ""

    def check_days(self) -> None:
        """Raise NoLandingError if no day has a folder because the root lies above or below the landing."""
        if self.all_days:
            return
        inner = [name for name in self._store.folders() if any(map(_DAY.match, self._store.folders(name)))]
        above = re.split(r"/+(?=(?:log_date|job_id|run_id)=)", self.root, maxsplit=1)
        meant = above[0] if len(above) > 1 else f"{self.root}/{inner[0]}" if inner else ""
        if meant:
            raise NoLandingError(
                f"the landing {self.root} has no folder log_date=DATE at all: did you mean {meant}?"
            )

    def nearest_days(self, day: date, last: date | None = None) -> str:
        """Name the days with a folder that are nearest to this day, or to the days up to `last`."""
        if not self.all_days:
            return "it has no folder log_date=DATE at all"
        ends = (day, last or day)
        nearest = sorted(self.all_days, key=lambda each: min(abs(each - end) for end in ends))[:_NEAREST]
        return f"the nearest days are {', '.join(map(str, sorted(nearest)))}"

    def finished_days(self) -> set[date]:
        """Return the days whose folder has the marker that producers write last."""
        return {day for day in self._days if self._store.exists(f"{_folder(day)}/{_MARKER}")}


def inputs_of(files: Sequence[LandedFile]) -> list[LandedFile]:
    """Return the files of a run folder that are read; logs of other tools only if there are no rank logs."""
    if not any(file.is_one_of(*LOGS) for file in files):
        return list(files)
    return [file for file in files if _EVIDENCE.fullmatch(file.name) or not file.is_log_of_other_tool]


def spelled(name: str) -> str:
    """Return a name as text, with bytes that are not UTF-8 in hexadecimal."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _folder(day: date) -> str:
    return f"log_date={day.isoformat()}"


def _unit(day: date, entry: Entry) -> Unit | None:
    """Return the unit of an entry in a run folder or of a day's health file; None elsewhere."""
    if len(entry.names) == 1 and any(fnmatchcase(spelled(entry.names[0]), each) for each in HEALTH):
        return Unit.of_day(day)
    found = _RUN.fullmatch(spelled("/".join(entry.names[:-1])))
    return Unit(day, found.group(1), found.group(2)) if found else None
