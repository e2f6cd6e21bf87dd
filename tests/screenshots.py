"""Pictures of the demo's report for the README: `make screenshots`, after `make demo`."""

import sys
from datetime import date, timedelta
from pathlib import Path
from typing import Final

from jobs.report.links import INDEX_NAME, job_page_path
from jobs.runtime.project import PROJECT
from jobs.runtime.settings import REPORT
from jobs.synthetic.demo import DAYS
from jobs.synthetic.fleet import FIRST_DAY
from tests.support.browser import started_browser

FOLDER: Final = PROJECT / "jobs" / "report" / "screenshots"
MOST_BYTES: Final = 150_000
LAST_DAY: Final = FIRST_DAY + timedelta(days=DAYS - 1)


def pages(report: Path) -> dict[str, tuple[Path, str, int]]:
    """Name of a picture -> page, the element that it begins with, and its height."""

    def job(day: date, job_id: str, run_id: str) -> Path:
        return report / job_page_path(day, job_id, run_id)

    return {
        "fleet": (report / str(LAST_DAY) / INDEX_NAME, "main", 800),
        "published-se": (job(FIRST_DAY, "published-se", "0"), "workers-title", 860),
        "published-st": (job(FIRST_DAY, "published-st", "0"), "workers-title", 700),
    }


def main() -> int:
    """Take all pictures; returns the exit status."""
    report = PROJECT / "demo" / "warehouse" / REPORT
    with started_browser() as browser:
        for name, (page, first, height) in pages(report).items():
            if not page.is_file():
                sys.stderr.write(f"screenshots: no {page}: run make demo first, with the published traces\n")
                return 1
            browser.open(page)
            picture = FOLDER / f"{name}.png"
            picture.parent.mkdir(exist_ok=True)
            top = browser.run("return document.getElementById(arguments[0]).getBoundingClientRect().y", first)
            browser.picture(picture, 1400, height, max(0, int(top) - 12))
            size = picture.stat().st_size
            sys.stdout.write(f"{picture.relative_to(PROJECT)}: {size / 1e3:.0f} kB\n")
            if size > MOST_BYTES:
                sys.stderr.write(f"screenshots: larger than {MOST_BYTES / 1e3:.0f} kB\n")
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
