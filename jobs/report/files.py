"""Where the report lies: a folder for each publication, and a page that lists them.

<report>/index.html · <report>/2026-01-05/index.html · <report>/2026-01-05/jobs/NAME.html, hosts/NAME.html
"""

import fcntl
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Final

import vl_convert

from jobs.report import templates
from jobs.report.dictionary import dictionary
from jobs.report.links import HEADLINE_NAME, INDEX_NAME, JOBS_FOLDER

_LOCK: Final = ".lock"
_GLOBALS: Final = "window.vegaEmbed = vegaEmbed;"
"""What of the chart library the pages call."""

_IS_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


def existing_pages(root: Path) -> set[str]:
    """Paths of all job pages of all publications, from the report's root."""
    return {page.relative_to(root).as_posix() for page in root.glob(f"*/{JOBS_FOLDER}/*.html")}


def existing_days(root: Path) -> list[date]:
    """Days that have a publication."""
    names = (page.parent.name for page in root.glob(f"*/{INDEX_NAME}"))
    return sorted(date.fromisoformat(name) for name in names if _IS_DAY.fullmatch(name))


def replace_publication(root: Path, day: date, pages: Mapping[str, bytes]) -> Path:
    """Make these pages the publication of a day, all at once; returns its folder.

    pages : path within the publication -> contents
    Written beside and renamed: a reader finds the old pages or the new ones, for a moment none. One
    process at a time: a report may be asked for while a night writes its own.
    """
    root.mkdir(parents=True, exist_ok=True)
    with (root / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _replace(root, day, pages)


def _replace(root: Path, day: date, pages: Mapping[str, bytes]) -> Path:
    target, made, old = (root / f"{before}{day}" for before in ("", ".new-", ".old-"))
    for leftover in (made, old):
        shutil.rmtree(leftover, ignore_errors=True)
    for name, content in {**_shared(root), **pages}.items():
        _write(made / name, content)
    if target.exists():
        target.rename(old)
    made.rename(target)
    shutil.rmtree(old, ignore_errors=True)
    list_publications(root)
    return target


def add_page(root: Path, path: str, content: bytes) -> Path:
    """Put one job page into the publication of its day, which may be there or not; returns the page."""
    page = root / path
    for name, shared in _shared(root).items():
        _write(page.parents[1] / name, shared)
    _write(page, content)
    return page


def list_publications(root: Path) -> None:
    """Write the list of all publications, the latest first."""
    days = [day.isoformat() for day in reversed(existing_days(root))]
    headlines = [root / day / HEADLINE_NAME for day in days]
    lines = [file.read_text(encoding="utf-8").strip() if file.is_file() else "" for file in headlines]
    publications = list(zip(days, lines, strict=True))
    values = {"root": days[0] if days else ".", "title": "Fleet reports", "publications": publications}
    _write(root / INDEX_NAME, templates.page("index.html", values))


def _shared(root: Path) -> dict[str, bytes]:
    """Style, script and chart library of a publication, and the dictionary of all columns."""
    return {
        **templates.shared_files(),
        templates.DICTIONARY_NAME: dictionary(),
        templates.LIBRARY_NAME: chart_library(root),
    }


def alone(page: bytes, library: bytes) -> bytes:
    """Return a page as one file that needs nothing beside it.

    library : as chart_library makes it
    """
    return templates.single_file(page, {**templates.shared_files(), templates.LIBRARY_NAME: library})


def cache_folder() -> Path:
    """Where the chart library is kept for pages outside of a report."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "straggler"


def chart_library(root: Path) -> bytes:
    """Vega, Vega-Lite and Vega-Embed as one script, which takes seconds to put together: kept in the root."""
    cached = root / f".{version('vl-convert-python')}-{templates.LIBRARY_NAME}"
    try:
        return cached.read_bytes()
    except OSError:  # not there yet, or nothing can be
        library = vl_convert.javascript_bundle(_GLOBALS).encode()
    with suppress(OSError):  # made again where it cannot be stored
        _write(cached, library)
    return library


def _write(path: Path, content: bytes) -> None:
    """Replace a file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_bytes(content)
    beside.rename(path)
