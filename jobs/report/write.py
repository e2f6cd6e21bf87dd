"""Writer of reports: pages on the fleet in the period up to a log date, its hosts, and its costliest jobs."""

import errno
import logging
import os.path
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, timedelta
from importlib import import_module
from pathlib import Path
from typing import Final

from jobs.report import files, loss
from jobs.report.fleet_page import fleet_page, headline
from jobs.report.host_page import host_pages
from jobs.report.job_page import job_page, links_of
from jobs.report.links import HEADLINE_NAME, INDEX_NAME, docs_path, host_page_path, job_page_path
from jobs.report.read import days_with_rows, read_fleet, read_units, straggling_units
from jobs.report.rows import FleetTables, Publication, UnitTables
from jobs.report.wording import counted
from jobs.runtime.project import data_root
from jobs.runtime.settings import REPORT, Settings, SettingsError, write_named
from jobs.warehouse.reader import NO_TABLES, QuestionError, Reader
from schemas.unit import Unit
from schemas.vocabulary import Phase

_LOG: Final = logging.getLogger(__name__)
_ELSEWHERE: Final = "name another folder as `report` below [paths] in a file for --settings"
_IN_STORE: Final = "jobs.report.in_store"
"""Module that is imported only if the report is in a store, as some installs lack the packages for that."""


class NoRowsError(QuestionError):
    """Raised for a report of a day without rows; the message names the nearest days with rows, if any."""


def write_report(reader: Reader, settings: Settings, log_date: date) -> str:
    """Write the report of a log date, in place of an earlier one; return its folder or URL.

    Raises NoRowsError if the day has no rows, SettingsError if this user may not write the report's folder.
    """
    with report_root(settings) as root:
        try:
            return _shown(settings, root, _write_report(reader, settings, log_date, root))
        except OSError as error:
            if not (isinstance(error, PermissionError) or error.errno == errno.EROFS):
                raise
            place, why = error.filename or root, error.strerror
            raise SettingsError(f"{place} cannot be used: {why}; {_ELSEWHERE}") from error


def _write_report(reader: Reader, settings: Settings, log_date: date, root: Path) -> Path:
    started = time.monotonic()
    fleet = read_fleet(reader, first_day(settings, log_date), log_date, settings.drain.terms)
    days = fleet.units["log_date"].to_pylist()
    if log_date not in days:
        there = days_with_rows(reader)
        if not there:
            raise NoRowsError(f"no rows in {reader.root}: {NO_TABLES}")
        near = [max((day for day in there if day < log_date), default=None)]
        near.append(min((day for day in there if day > log_date), default=None))
        named = " and ".join(str(day) for day in near if day)
        raise NoRowsError(f"no rows of {log_date} in {reader.root}: the nearest days with rows are {named}")
    chosen = straggling_units(fleet, log_date, settings.report.job_pages)
    pages = {job_page_path(*unit) for unit in chosen}
    earlier = {path for path in files.existing_pages(root) if path < f"{log_date}/"}
    docs = Path(docs_path(reader.root, log_date, Phase.PUBLISH))
    quality = Path(os.path.relpath(docs, root / str(log_date))).as_posix() if docs.is_file() else ""
    hosts = dict.fromkeys(fleet.host_units["host"].to_pylist())
    name = warehouse_name(settings)
    publication = publication_of(fleet, log_date, earlier | pages, hosts, name, quality)
    found = contents(fleet, read_units(reader, chosen, fleet.hosts), publication)
    folder = files.replace_publication(root, log_date, found)
    where = _shown(settings, root, folder)
    _LOG.info("report: %s (%s, %.1f s)", where, counted(len(pages), "job page"), time.monotonic() - started)
    return folder


def write_reports(
    reader: Reader, settings: Settings, changed: Collection[date], asked: Collection[date]
) -> None:
    """Write the reports of the days `asked`, and rewrite reports whose period includes a changed day.

    A day without rows gets no report but a warning. If no day has changed, nothing is written.
    """
    if not changed:
        return
    period = timedelta(days=settings.report.period_days)
    with report_root(settings) as root:
        there = [day for day in files.existing_days(root) if min(changed) <= day < max(changed) + period]
        for day in sorted({*asked, *there}):
            try:
                _write_report(reader, settings, day, root)
            except NoRowsError as error:
                _LOG.warning("no report is written: %s", error)


def write_job_page(reader: Reader, settings: Settings, unit: Unit, alone: Path | None) -> tuple[str, str]:
    """Write the page of a unit; return its headline, and the path or URL of the page.

    alone : one file to write; None: the page becomes part of the day's report.
    Raises SettingsError if the file cannot be written.
    """
    fleet = read_fleet(reader, first_day(settings, unit.log_date), unit.log_date)
    (tables,) = read_units(reader, [unit], fleet.hosts)
    name, says = warehouse_name(settings), loss.headline(tables.job)
    if alone:
        library = files.chart_library(files.cache_folder())
        write_named("--out", alone, files.alone(job_page(tables, name), library))
        return says, str(alone)
    with report_root(settings) as root:
        folder = root / str(unit.log_date)
        named = {*fleet.host_units["host"].to_pylist()}
        hosts = [host for host in named if (folder / host_page_path(host)).is_file()]
        publication = publication_of(fleet, unit.log_date, files.existing_pages(root), hosts, name)
        links = links_of(unit, fleet, publication, has_fleet_page=(folder / INDEX_NAME).is_file())
        page = files.add_page(root, job_page_path(*unit), job_page(tables, name, links))
        return says, _shown(settings, root, page)


@contextmanager
def report_root(settings: Settings) -> Iterator[Path]:
    """Yield the local folder of all publications; a report in a store is uploaded afterwards."""
    if settings.report_folder is not None:
        yield settings.report_folder
    else:
        with import_module(_IN_STORE).mirrored(f"{settings.paths.warehouse}/{REPORT}") as folder:
            yield folder


def _shown(settings: Settings, root: Path, made: Path) -> str:
    """Return the path of a file in the report's folder, or its URL if the report is in a store."""
    if settings.report_folder is not None:
        return str(made)
    return f"{settings.paths.warehouse}/{REPORT}/{made.relative_to(root).as_posix()}"


def warehouse_name(settings: Settings) -> str:
    """Return the argument that names the warehouse in commands; empty for the default warehouse."""
    path = settings.paths.warehouse
    if "://" in path:
        return path
    if Path(path) == data_root() / "warehouse":
        return ""
    return str(Path(path).relative_to(data_root())) if Path(path).is_relative_to(data_root()) else path


def first_day(settings: Settings, last_day: date) -> date:
    """Return the first day of a report's period."""
    return last_day - timedelta(days=settings.report.period_days - 1)


def publication_of(
    fleet: FleetTables,
    day: date,
    pages: Collection[str],
    hosts: Collection[str],
    warehouse: str,
    quality: str = "",
) -> Publication:
    """Return the period of a day's report, and the targets of links on its pages.

    pages     : paths of existing and new job pages, relative to the report's root.
    hosts     : the hosts that have a page.
    warehouse : as warehouse_name returns it.
    quality   : path of the day's data docs, relative to the publication's folder; empty for none.
    """
    first = min([*fleet.units["log_date"].to_pylist(), day])
    paths = {host: host_page_path(host) for host in hosts}
    return Publication(day, first, frozenset(pages), paths, warehouse, quality)


def contents(fleet: FleetTables, units: Sequence[UnitTables], publication: Publication) -> dict[str, bytes]:
    """Render all pages of a publication; return the contents of its files by path in its folder."""
    jobs = {
        job_page_path(*unit.key).split("/", 1)[1]: job_page(
            unit, publication.warehouse, links_of(unit.key, fleet, publication)
        )
        for unit in units
    }
    return {
        **jobs,
        **host_pages(fleet, publication),
        INDEX_NAME: fleet_page(fleet, publication),
        HEADLINE_NAME: headline(fleet, publication).encode(),
    }
