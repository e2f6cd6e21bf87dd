"""All pages of one publication: rows in, contents of files out."""

import os.path
from collections.abc import Collection, Sequence
from datetime import date
from pathlib import Path
from typing import Final

from jobs.report.fleet_page import fleet_page
from jobs.report.host_page import host_pages
from jobs.report.job_page import job_page, links_of
from jobs.report.names import INDEX_NAME, host_page_path, job_page_path
from jobs.report.rows import FleetTables, Publication, UnitTables
from jobs.report.tiles import headline

HEADLINE_NAME: Final = "headline.txt"
"""First sentence of a publication, for the list of all."""


def publication_of(
    fleet: FleetTables,
    day: date,
    pages: Collection[str],
    hosts: Collection[str],
    warehouse: str = "",
    quality: str = "",
) -> Publication:
    """Return what the pages of a day lead to.

    pages : job pages of earlier publications and of this one, from the report's root.
    hosts : those that have a page. quality : data docs of the day, from the publication's folder.
    """
    first = min([*fleet.units["log_date"].to_pylist(), day])
    paths = {host: host_page_path(host) for host in hosts}
    return Publication(day, first, frozenset(pages), paths, warehouse, quality)


def contents(fleet: FleetTables, units: Sequence[UnitTables], publication: Publication) -> dict[str, bytes]:
    """Return the files of a publication, by their path in its folder."""
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


def quality_from(root: Path, day: date, page: Path) -> str:
    """Where a page of the data docs lies from the publication of a day; empty where it is not there."""
    return Path(os.path.relpath(page, root / str(day))).as_posix() if page.is_file() else ""
