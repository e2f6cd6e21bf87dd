"""The report in a real browser: drawn, filtered, linked, and readable when narrow."""

from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from jobs.report import files as report_files
from jobs.report.fleet_page import fleet_page, headline
from jobs.report.job_page import job_page
from jobs.report.names import INDEX_NAME, job_page_path
from jobs.report.rows import FleetTables
from jobs.report.wording import hours
from tests import published
from tests.jobs.browser import Browser, started_browser
from tests.jobs.conftest import Demo
from tests.jobs.report.fleets import LAST, NAUGHTY, fleet, publication
from tests.jobs.report.units import unit_tables

pytestmark = pytest.mark.slow

FLEET = fleet(runs=60, days=40)
FLEET_CHARTS = ("causes", "trend", "waste", "sizes", "causes-over-time", "op-types")
JOB_CHARTS = ("workers", "step-map", "steps", "op-types")
MARKS = """
    const place = document.getElementById(arguments[0]);
    const canvas = place.querySelector("canvas");
    if (!canvas) return place.querySelectorAll("svg .role-mark path, svg .role-mark line").length;
    const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return new Set(new Uint32Array(data.buffer)).size;
"""
"""Marks of a chart; of one on a canvas its colours."""
OPTION = """
    const {options} = document.getElementById(arguments[0]);
    return [...options].find((option) => option.text === arguments[1]).value;
"""
SLIPPED_IN = """
    const script = document.createElement("script");
    script.textContent = "document.body.dataset.slipped = 1";
    document.body.append(script);
    return fetch("http://127.0.0.1:9/").catch(() => null);
"""
FOCUS = "const e = document.activeElement; return e.id || e.className || e.textContent"
CELLS = """
    const cells = document.querySelectorAll("#chart-workers svg .mark-rect.role-mark path");
    return [...cells].map((cell) => [cell.getBoundingClientRect().y, cell.getAttribute("fill")]);
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started_browser() as started:
        yield started


@pytest.fixture(scope="module")
def drawn_fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of a random fleet, with names that are markup."""
    root = tmp_path_factory.mktemp("report")
    folder = report_files.replace_publication(root, LAST, {INDEX_NAME: fleet_page(FLEET, publication(FLEET))})
    return folder / INDEX_NAME


@pytest.mark.parametrize("width", [1400, 400])
@pytest.mark.parametrize("dark", [False, True])
def test_the_demos_report_is_drawn(browser: Browser, demo: Demo, width: int, *, dark: bool) -> None:
    browser.open(demo.report / "2026-01-07" / INDEX_NAME, width, dark=dark)
    assert browser.console() == []
    assert not_drawn(browser, FLEET_CHARTS) == []
    assert browser.run("return document.documentElement.scrollWidth") <= width
    for table in ("fix-causes", "fix-jobs", "fix-hosts", "coverage", "hosts", "left-out"):
        assert browser.run("return document.querySelectorAll(`#${arguments[0]} tbody th`).length", table) > 0
    assert "node-0013" in browser.text("fix-hosts")
    assert browser.text("headline").startswith("Stragglers cost 3,791 of 21,792 analysed GPU-hours (17.4 %)")


def test_all_links_of_the_demo_lead_somewhere_and_job_pages_are_drawn(browser: Browser, demo: Demo) -> None:
    browser.open(demo.report / "2026-01-07" / INDEX_NAME)
    links = browser.run("return [...document.querySelectorAll('a[href]')].map((a) => a.href.split('#')[0])")
    pages = {Path(link.removeprefix("file://")) for link in links}
    assert [page for page in pages if not page.is_file()] == []
    days = {page.parents[1].name for page in pages if page.parent.name == "jobs"}
    assert days == {"2026-01-05", "2026-01-06", "2026-01-07"}
    for page in sorted(demo.report.glob("*/jobs/*.html")):
        browser.open(page, 400)
        assert browser.console() == [], page
        assert not_drawn(browser, JOB_CHARTS) == []
        assert browser.run("return document.documentElement.scrollWidth") <= 400, page
    back = browser.driver.find_element(By.PARTIAL_LINK_TEXT, "Fleet report of")
    back.click()
    browser.wait()
    assert "Fleet report" in browser.driver.title


@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"team": "speech"},
        {"cluster": "south"},
        {"cause": "pauses"},
        {"from": "2026-05-10", "to": "2026-05-20"},
        {"team": "<b>research</b>", "cluster": "north", "cause": "slow worker", "from": "2026-05-01"},
        {"team": "(not stated)", "cause": "pauses", "to": "2026-04-23"},
    ],
)
def test_filters_change_what_is_shown_to_the_sums_of_what_they_leave(
    browser: Browser, drawn_fleet: Path, filters: dict[str, str]
) -> None:
    browser.open(drawn_fleet)
    for name, value in filters.items():
        browser.choose(**{name: value if name in {"from", "to"} else browser.run(OPTION, name, value)})
    wanted = _filtered(FLEET, filters)
    assert browser.text("headline") == headline(wanted)
    assert browser.console() == []
    titles = {"slow_worker": "slow worker", "pause": "pauses"}
    returned: dict[str, float] = {}
    for row in wanted.parts.to_pylist():
        if row["cause"] in titles and row["attributed_gpu_hours"] is not None:
            title = titles[row["cause"]]
            returned[title] = returned.get(title, 0.0) + row["attributed_gpu_hours"]
    shown = _rows(browser, "fix-causes")
    assert {cause: shown[cause][0] for cause in returned} == {
        cause: hours(each) for cause, each in returned.items()
    }
    assert len(shown) == max(1, len(set(wanted.parts["cause"].to_pylist())))
    if "cause" not in filters:
        everyone = {row["job_id"] for row in wanted.units.to_pylist()}
        assert sum(int(cells[0]) for cells in _rows(browser, "coverage").values()) == len(everyone)


def test_reset_brings_everything_back(browser: Browser, drawn_fleet: Path) -> None:
    browser.open(drawn_fleet)
    before = browser.text("headline")
    browser.choose(team="speech", cause="pause")
    assert browser.text("headline") != before
    browser.run("document.body.dataset.shown = ''")
    browser.driver.find_element(By.CSS_SELECTOR, "#filters [type=reset]").click()
    browser.wait()
    assert browser.text("headline") == before


def test_names_that_are_markup_are_shown_as_they_are(browser: Browser, drawn_fleet: Path) -> None:
    browser.open(drawn_fleet)
    for button in browser.driver.find_elements(By.CSS_SELECTOR, "tfoot button"):
        button.send_keys(Keys.ENTER)
    assert NAUGHTY in browser.text("fix-jobs") + browser.text("left-out")
    assert browser.run("return document.images.length") == 0
    assert browser.driver.title == f"Fleet report, {LAST}"


def test_what_gets_into_a_page_all_the_same_is_not_run(browser: Browser, drawn_fleet: Path) -> None:
    """An element that slips through, a request: the page's policy refuses both, and says so."""
    browser.open(drawn_fleet)
    browser.run(SLIPPED_IN)
    assert browser.run("return document.body.dataset.slipped") is None
    refused = " ".join(browser.console())
    assert ["script-src" in refused, "connect-src" in refused] == [True, True]


def test_the_keyboard_reaches_everything_in_order(browser: Browser, drawn_fleet: Path) -> None:
    browser.open(drawn_fleet)
    visited = []
    for _ in range(16):
        browser.driver.switch_to.active_element.send_keys(Keys.TAB)
        visited.append(browser.run(FOCUS))
    wanted = ["skip", "All reports", "from", "to", "team", "cluster", "cause", "Reset"]
    assert [name for name in dict.fromkeys(visited) if name in wanted] == wanted
    assert "scroll" in visited


def test_five_months_of_the_papers_fleet_are_drawn_from_under_five_megabytes(
    browser: Browser, tmp_path: Path
) -> None:
    tables = fleet(runs=3079, days=150)
    page = fleet_page(tables, publication(tables))
    folder = report_files.replace_publication(tmp_path, LAST, {INDEX_NAME: page})
    assert sum(file.stat().st_size for file in folder.iterdir()) < 5_000_000
    browser.open(folder / INDEX_NAME)
    assert browser.console() == []
    assert browser.run(MARKS, "chart-sizes") > 1
    assert browser.text("headline") == headline(tables)
    assert "By month" in browser.text("trend-text")


@pytest.mark.parametrize(("trace", "is_hot"), [("SE", [True, True]), ("ST", [False, False, False, True])])
def test_maps_of_the_published_traces_show_what_the_paper_says(
    browser: Browser, published_traces: Path, tmp_path: Path, trace: str, is_hot: list[bool]
) -> None:
    """SE is hot all over, ST in its last row. Hot: on the mean darker than what 2 % are drawn in."""
    rows = published.rank_steps(published_traces, trace)
    page = job_page(unit_tables(rows, published.manifest(published_traces, trace), trace))
    browser.open(report_files.add_page(tmp_path, job_page_path(date(2026, 1, 5), trace, "0"), page))
    by_row: dict[float, list[float]] = {}
    for top, fill in browser.run(CELLS):
        by_row.setdefault(top, []).append(_luminance(fill))
    assert [sum(row) / len(row) < 0.57 for _, row in sorted(by_row.items())] == is_hot, by_row


def not_drawn(browser: Browser, charts: Sequence[str]) -> list[str]:
    """Those of the charts that show nothing."""
    return [name for name in charts if browser.run(MARKS, f"chart-{name}") < 2]


def _luminance(colour: str) -> float:
    red, green, blue = (int(part) / 255 for part in colour.removeprefix("rgb(").rstrip(")").split(","))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _rows(browser: Browser, table: str) -> dict[str, list[str]]:
    """Cells of a table by the text of the row's heading."""
    script = """return [...document.querySelectorAll(`#${arguments[0]} tbody tr`)].map(
        (row) => [...row.children].map((cell) => cell.textContent))"""
    return {cells[0]: cells[1:] for cells in browser.run(script, table)}


def _filtered(tables: FleetTables, filters: dict[str, str]) -> FleetTables:
    """The same rows chosen by hand."""
    units, parts = tables.units.to_pandas(), tables.parts.to_pandas()
    team, cluster, day = units.team.fillna("(not stated)"), units.cluster, units.log_date.astype(str)
    is_in = (team == filters.get("team", team)) & (cluster == filters.get("cluster", cluster))
    units = units[is_in & day.between(filters.get("from", ""), filters.get("to", "9999"))]
    cause = {"pauses": "pause", "slow worker": "slow_worker"}.get(filters.get("cause", ""))
    of_unit = ["log_date", "job_id"]
    parts = parts[parts.cause == (cause or parts.cause)].merge(units[of_unit])
    if cause:
        units = units.merge(parts[of_unit].drop_duplicates())
    in_scope, of_cause = (pa.Table.from_pandas(rows, preserve_index=False) for rows in (units, parts))
    return FleetTables(in_scope, of_cause, tables.op_types, tables.hosts)
