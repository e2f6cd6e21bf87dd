"""Files of the report: one folder per day's publication, and a page that lists all publications.

<report>/index.html · <report>/2026-01-05/index.html · <report>/2026-01-05/jobs/NAME.html, hosts/NAME.html
"""

import fcntl
import logging
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from datetime import date
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from jobs.report import templates
from jobs.report.links import HEADLINE_NAME, INDEX_NAME, JOBS_FOLDER
from jobs.report.templates import dictionary
from jobs.runtime.extras import missing

_LOG: Final = logging.getLogger(__name__)
_LOCK: Final = ".lock"
_GLOBALS: Final = "window.vegaEmbed = vegaEmbed;"
"""JavaScript that makes a function of the bundled chart library visible to the pages' scripts."""

_IS_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


def existing_pages(root: Path) -> set[str]:
    """Return the paths of all job pages of all publications, relative to the report's root."""
    return {page.relative_to(root).as_posix() for page in root.glob(f"*/{JOBS_FOLDER}/*.html")}


def existing_days(root: Path) -> list[date]:
    """Return the days that have a publication of the report."""
    names = (page.parent.name for page in root.glob(f"*/{INDEX_NAME}"))
    return sorted(date.fromisoformat(name) for name in names if _IS_DAY.fullmatch(name))


def replace_publication(root: Path, day: date, pages: Mapping[str, bytes]) -> Path:
    """Replace a day's publication by these pages, and list it; return its folder.

    pages : contents by path within the publication
    The new folder is written beside the old one, which is then renamed away: readers find the old pages or
    the new ones, never a mixture, but none for a moment. A lock keeps other processes from writing meanwhile.
    """
    target, made, old = (root / f"{before}{day}" for before in ("", ".new-", ".old-"))
    root.mkdir(parents=True, exist_ok=True)
    with (root / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for leftover in (made, old):
            shutil.rmtree(leftover, ignore_errors=True)
        for name, content in {**shared(chart_library(root)), **pages}.items():
            _write(made / name, content)
        if target.exists():
            target.rename(old)
        made.rename(target)
        shutil.rmtree(old, ignore_errors=True)
        days = [day.isoformat() for day in reversed(existing_days(root))]
        headlines = [root / day / HEADLINE_NAME for day in days]
        lines = [file.read_text(encoding="utf-8").strip() if file.is_file() else "" for file in headlines]
        _write(root / INDEX_NAME, list_of(dict(zip(days, lines, strict=True))))
    return target


def add_page(root: Path, path: str, content: bytes) -> Path:
    """Write one job page into its day's publication, which is created if needed; return the page's path.

    path : of the page, relative to `root`
    """
    page = root / path
    for name, each in shared(chart_library(root)).items():
        _write(page.parents[1] / name, each)
    _write(page, content)
    return page


def list_of(publications: Mapping[str, str]) -> bytes:
    """Return the page that lists publications; `publications` has the first sentence of each, by day."""
    root = next(iter(publications), ".")
    values = {"root": root, "title": "Fleet reports", "publications": [*publications.items()]}
    return templates.page("index.html", values)


def shared(library: bytes) -> dict[str, bytes]:
    """Return the files that all pages of a publication share, by name: style, scripts and data dictionary.

    library : contents of the chart library, from chart_library
    """
    return {
        **templates.shared_files(),
        templates.DICTIONARY_NAME: dictionary(),
        templates.LIBRARY_NAME: library,
    }


def alone(page: bytes, library: bytes) -> bytes:
    """Return a page as one self-contained file.

    library : contents of the chart library, from chart_library
    """
    return templates.single_file(page, {**templates.shared_files(), templates.LIBRARY_NAME: library})


def cache_folder() -> Path:
    """Return the folder in which the chart library is cached for pages that are in no report."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "straggler"


def chart_library(root: Path) -> bytes:
    """Return Vega, Vega-Lite and Vega-Embed as one script; building it takes seconds, so `root` caches it.

    If they are neither installed nor cached, return a script that says in place of each chart what to
    install.
    """
    if find_spec("vl_convert") is None:
        for kept in sorted(root.glob(f".*-{templates.LIBRARY_NAME}"), reverse=True):
            return kept.read_bytes()  # another installation, which has the library, wrote to this report
        _LOG.warning("pages have no charts: %s", missing(ModuleNotFoundError(name="vl_convert")))
        return templates.shared_files("no-charts.js")[templates.SCRIPT_NAME]
    cached = root / f".{version('vl-convert-python')}-{templates.LIBRARY_NAME}"
    try:
        return cached.read_bytes()
    except OSError:  # not cached yet, or the folder cannot be read
        import vl_convert  # noqa: PLC0415  # optional: see jobs.runtime.extras

        library = vl_convert.javascript_bundle(_GLOBALS).encode()
    with suppress(OSError):  # in a folder that cannot be written, it is built each time
        _write(cached, library)
    return library


def _write(path: Path, content: bytes) -> None:
    """Replace a file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_bytes(content)
    beside.rename(path)
