"""Make pages of the report on request, for every day, unit and host, as of the latest publication.

A request's path is never opened as a file: it is compared with the paths of pages that the rows can make.
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from functools import cache, lru_cache, partial
from threading import BoundedSemaphore, Event, Lock, Thread
from typing import Final, NamedTuple

from jobs.entry_points.command import opened
from jobs.reading.database import Database
from jobs.reading.duckdb_reader import DuckDbReader
from jobs.report import files
from jobs.report.fleet_page import fleet_page
from jobs.report.host_page import host_pages
from jobs.report.job_page import job_page, links_of
from jobs.report.links import HOSTS_FOLDER, INDEX_NAME, JOBS_FOLDER, job_page_path
from jobs.report.read import days_with_rows, read_fleet, read_units
from jobs.report.rows import FleetTables, Publication
from jobs.report.write import first_day, publication_of, warehouse_name
from jobs.runtime.errors import PlainError
from jobs.runtime.settings import Settings
from jobs.warehouse.reader import AnswerError, keys_of
from schemas.unit import Unit

_MOST_WAITING: Final = 8
"""Most requests at a time: one whose page is being made, and others that wait for it; more are refused."""
_MOST_DAYS: Final = 4
"""Most days whose fleet tables are cached."""
_MOST_KEPT: Final = 64_000_000
"""Most bytes of all cached pages together. [B]"""
_MOST_PAGE: Final = 32_000_000
"""Most bytes of a page that is sent, because browsers can hardly show larger pages. [B]"""
_MOST_SECONDS: Final = 60.0
"""Most time for all queries of one page, as by default for one query in `straggler query`. [s]"""
_AGAIN_S: Final = 0.1
"""Time between two interrupts of a query that takes too long. [s]"""

_DAY: Final = re.compile(r"/(\d{4}-\d{2}-\d{2})/?", re.ASCII)
_PATH: Final = re.compile(
    rf"/(?P<day>\d{{4}}-\d{{2}}-\d{{2}})/(?:(?P<folder>{JOBS_FOLDER}|{HOSTS_FOLDER})/)?(?P<name>[\w.-]{{1,200}})",
    re.ASCII,
)


class NoPageError(LookupError):
    """Raised for a path that has no page."""


class BusyError(PlainError):
    """Raised if too many pages are being made, or one page takes too long or is too large."""


class _Day(NamedTuple):
    """Data for the pages of one day; `units` has that day's units by the path of their page."""

    fleet: FleetTables
    publication: Publication
    units: dict[str, Unit]


class Pages:
    """Pages of one warehouse; any thread may request a page.

    Raises QuestionError if the warehouse has no tables.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._shared = files.shared(files.chart_library(files.cache_folder()))
        self._waiting, self._lock = BoundedSemaphore(_MOST_WAITING), Lock()
        self._open(opened(settings))

    def _open(self, database: Database) -> None:
        """Switch to the latest publication; if opening it fails, keep the publication that is open."""
        stated, reader = database.stated(), DuckDbReader(database, in_order=True)
        self._stated, self._reader = stated, reader
        self._known = cache(partial(days_with_rows, reader))
        self._day = lru_cache(_MOST_DAYS)(self._read_day)
        self._made: OrderedDict[str, bytes] = OrderedDict()

    def instead(self, path: str) -> str | None:
        """Return where to redirect a request: from a day's folder to the day's fleet page; None for a page.

        The root is redirected to the latest day. Raises NoPageError for the root if no day has rows.
        """
        day = self._all_days()[0] if path == "/" else (_DAY.fullmatch(path) or ("", None))[1]
        return None if day is None else f"/{day}/{INDEX_NAME}"

    def _all_days(self) -> list[date]:
        with self._turn():
            if not self._known():
                raise NoPageError("no rows yet: run a night first")
            return self._known()[::-1]

    def page(self, path: str) -> bytes:
        """Return the content of the page at a path, which is made if it is not cached.

        Raises NoPageError for a path without a page, and BusyError if the page cannot be made now.
        """
        if path == f"/{INDEX_NAME}":
            return files.list_of({day.isoformat(): "" for day in self._all_days()})
        asked = _PATH.fullmatch(path)
        if asked is None:
            raise NoPageError("no such page")
        if asked["folder"] is None and asked["name"] in self._shared:
            return self._shared[asked["name"]]
        try:
            day = date.fromisoformat(asked["day"])
        except ValueError as error:
            raise NoPageError("no such day") from error
        with self._turn():
            if path not in self._made:
                made = self._make(day, path)
                if len(made) > _MOST_PAGE:
                    how = "straggler job-page --out FILE writes it"
                    raise BusyError(f"the page has {len(made) / 1e6:.0f} MB: {how}")
                self._made[path] = made
                while sum(map(len, self._made.values())) > _MOST_KEPT:
                    self._made.popitem(last=False)
            self._made.move_to_end(path)
            return self._made[path]

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Let one request at a time use the reader, of the latest publication and within the time limit.

        Raises BusyError if too many requests wait, or if the queries take longer than _MOST_SECONDS.
        """
        if not self._waiting.acquire(blocking=False):
            raise BusyError(f"{_MOST_WAITING} pages are being made: try again in a moment")
        try:
            with self._lock:
                paths = self._settings.paths
                if Database(paths.warehouse, paths.ingested).stated() != self._stated:
                    before = self._reader
                    self._open(opened(self._settings))
                    before.close()
                with _stopped_after(_MOST_SECONDS, self._reader.stop):
                    yield
        finally:
            self._waiting.release()

    def _make(self, day: date, path: str) -> bytes:
        found = self._day(day)
        if path == f"/{day}/{INDEX_NAME}":
            return fleet_page(found.fleet, found.publication)
        unit = found.units.get(path[1:])
        if unit is not None:
            (tables,) = read_units(self._reader, [unit], found.fleet.hosts)
            links = links_of(unit, found.fleet, found.publication)
            return job_page(tables, found.publication.warehouse, links)
        host = {host: name for host, name in found.publication.hosts.items() if path == f"/{day}/{name}"}
        for page in host_pages(found.fleet, replace(found.publication, hosts=host)).values():
            return page
        raise NoPageError("no such page")

    def _read_day(self, day: date) -> _Day:
        """Read the rows that all pages of a day need. Raises NoPageError for a day without rows."""
        if day not in self._known():
            raise NoPageError(f"no rows of {day}; the days with rows are listed in /{INDEX_NAME}")
        fleet = read_fleet(self._reader, first_day(self._settings, day), day, self._settings.drain.terms)
        units = keys_of(fleet.units)
        of_day = {job_page_path(*unit): unit for unit in units if unit.log_date == day}
        pages = [job_page_path(*unit) for unit in units]
        hosts = dict.fromkeys(fleet.host_units["host"].to_pylist())
        publication = publication_of(fleet, day, pages, hosts, warehouse_name(self._settings))
        return _Day(fleet, publication, of_day)


@contextmanager
def _stopped_after(seconds: float, stop: Callable[[], None]) -> Iterator[None]:
    """Limit the time of the queries in this context. Raises BusyError if they take longer than `seconds`.

    stop : interrupts the running query; called repeatedly, as a call between two queries has no effect.
    """
    done, late = Event(), Event()

    def watch() -> None:
        if not done.wait(seconds):
            late.set()
            while not done.wait(_AGAIN_S):
                stop()

    Thread(target=watch, daemon=True).start()
    try:
        yield
    except AnswerError as error:
        if late.is_set():
            raise BusyError(f"the page takes longer than {seconds:g} s") from error
        raise
    finally:
        done.set()
