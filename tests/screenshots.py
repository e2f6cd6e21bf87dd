"""Take pictures of the demo's report for the README: `make screenshots`, after `make demo`."""

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


def pages(report: Path) -> dict[str, tuple[Path, str, int, int, bool]]:
    """Return for each picture its page, first element, height, width, and whether it is in dark mode."""

    def job(day: date, job_id: str, run_id: str) -> Path:
        return report / job_page_path(day, job_id, run_id)

    return {
        "fleet": (report / str(LAST_DAY) / INDEX_NAME, "main", 800, 1400, False),
        "fleet-dark": (report / str(LAST_DAY) / INDEX_NAME, "main", 800, 1400, True),
        "fleet-narrow": (report / str(LAST_DAY) / INDEX_NAME, "chain-title", 900, 400, True),
        "fleet-narrow-light": (report / str(LAST_DAY) / INDEX_NAME, "main", 900, 400, False),
        "job": (job(LAST_DAY, "gpt-175b", "r1"), "main", 1600, 1400, False),
        "job-narrow-dark": (job(LAST_DAY, "gpt-175b", "r1"), "main", 1600, 400, True),
        "gpt-175b": (job(LAST_DAY, "gpt-175b", "r1"), "crop-title", 700, 1400, False),
        "published-se": (job(FIRST_DAY, "published-se", "0"), "workers-title", 800, 1400, False),
        "published-st": (job(FIRST_DAY, "published-st", "0"), "workers-title", 700, 1400, False),
    }


def main() -> int:
    """Take all pictures; return 1 if a page is missing or a picture is too large."""
    report = PROJECT / "demo" / "warehouse" / REPORT
    with started_browser() as browser:
        for name, (page, first, height, width, dark) in pages(report).items():
            if not page.is_file():
                sys.stderr.write(f"screenshots: no {page}: run make demo first, with the published traces\n")
                return 1
            browser.open(page, width, dark=dark)
            picture = FOLDER / f"{name}.webp"
            picture.parent.mkdir(exist_ok=True)
            top = browser.run("return document.getElementById(arguments[0]).getBoundingClientRect().y", first)
            browser.picture(picture, width, height, max(0, int(top) - 12))
            size = picture.stat().st_size
            sys.stdout.write(f"{picture.relative_to(PROJECT)}: {size / 1e3:.0f} kB\n")
            if size > MOST_BYTES:
                sys.stderr.write(f"screenshots: larger than {MOST_BYTES / 1e3:.0f} kB\n")
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
