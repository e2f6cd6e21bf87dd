"""In a real browser, report pages are drawn, filtered and linked, and can be read on a narrow screen."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from jobs.report import files as report_files
from jobs.report.fleet_page import fleet_page
from jobs.report.job_page import job_page
from jobs.report.links import INDEX_NAME, job_page_path
from jobs.report.rows import FleetTables
from jobs.report.wording import hours
from tests.evaluation.coverage import sums
from tests.jobs.conftest import Demo
from tests.jobs.report.fleets import LAST, NAUGHTY, fleet, publication
from tests.jobs.report.units import sick_job, unit_tables
from tests.support import published
from tests.support.browser import Browser, started_browser
from tests.support.examples import culprit

pytestmark = pytest.mark.slow

FLEET_CHARTS = ("trend", "waste", "sizes", "op-types")
JOB_CHARTS = ("workers", "step-map", "steps", "op-types", "power")
MARKS = """
    const place = document.getElementById(arguments[0]);
    const canvas = place.querySelector("canvas");
    if (!canvas) {
      const marks = [...place.querySelectorAll("svg .role-mark path, svg .role-mark line")];
      const points = (mark) => (mark.getAttribute("d") ?? "ML").match(/[A-Z]/gi) ?? [0];
      return marks.reduce((sum, mark) => sum + points(mark).length - 1, 0);
    }
    const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return new Set(new Uint32Array(data.buffer)).size;
"""
"""JavaScript that counts the line segments in a chart's marks or, if the chart is a canvas, its colours."""
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
CLICK = """
    const click = new MouseEvent("click", {bubbles: true});
    document.querySelector(arguments[0]).dispatchEvent(click);
"""
FOCUS = "const e = document.activeElement; return e.id || e.className || e.textContent"
CELLS = """
    const cells = document.querySelectorAll("#chart-workers svg .mark-rect.role-mark path");
    return [...cells].map((cell) => [cell.getBoundingClientRect().y, cell.getAttribute("fill")]);
"""


@cache
def random_fleet() -> FleetTables:
    """Return the tables of a random fleet, made on first use, because pytest may only collect this file."""
    return fleet(runs=60, days=40)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started_browser() as started:
        yield started


@pytest.fixture(scope="module")
def drawn_fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Path of the page of a random fleet, in which some names contain markup."""
    root = tmp_path_factory.mktemp("report")
    page = fleet_page(random_fleet(), publication(random_fleet()))
    folder = report_files.replace_publication(root, LAST, {INDEX_NAME: page})
    return folder / INDEX_NAME


@pytest.mark.parametrize("width", [1400, 400])
@pytest.mark.parametrize("dark", [False, True])
def test_the_demos_report_is_drawn(browser: Browser, demo: Demo, width: int, *, dark: bool) -> None:
    browser.open(demo.report / "2026-01-07" / INDEX_NAME, width, dark=dark)
    assert browser.console() == []
    assert not_drawn(browser, FLEET_CHARTS) == []
    assert browser.run("return document.documentElement.scrollWidth") <= width
    for table in ("fixes", "hosts", "left-out"):
        assert browser.run("return document.querySelectorAll(`#${arguments[0]} tbody th`).length", table) > 0
    assert next(iter(_rows(browser, "fixes"))) == "node-0013"
    assert browser.text("sum") == "5,588 GPU-hours lost in 49 job-days, 17.6 % of their 31,824."
    assert "5,588 GPU-hours" in browser.run("return document.querySelector('.tile .figure').textContent")


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
    for page in sorted(demo.report.glob("*/hosts/*.html")):
        browser.open(page, 400)
        assert browser.run("return document.documentElement.scrollWidth") <= 400, page
    back = browser.driver.find_element(By.PARTIAL_LINK_TEXT, "Fleet report")
    back.click()
    browser.wait()
    assert "Fleet report" in browser.driver.title


@pytest.mark.parametrize("freedom", [None, 1.0, 3.0, 19.0])
def test_half_of_the_interval_of_a_sum_is_that_of_the_evaluation(
    browser: Browser, drawn_fleet: Path, freedom: float | None
) -> None:
    """The page's JavaScript computes the same half width of a sum's interval as the evaluation in Python."""
    browser.open(drawn_fleet)
    part = {"cause": "pause", "half": 2.5, "shared": 1.5, "lost": 5.0, "freedom": freedom}
    parts = [part | {"unit": {"run": str(run // 2), "log_date": "2026-01-05"}} for run in range(20)]
    row = {
        "class": "pause",
        "seed": 0,
        "true": 0.0,
        "saved": 0.0,
        "width": 10.0,
        "design": "even",
        "shared": 3.0,
    }
    half = sums(pd.DataFrame([row | {"freedom": freedom or np.inf}] * 10))["half"]
    assert browser.run("return halfOf(arguments[0])", parts) == pytest.approx(half[0])


@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"team": "vision", "by": "job"},
        {"cluster": "south", "by": "host"},
        {"cause": "pauses (pause)", "by": "cause"},
        {"from": "2026-05-10", "to": "2026-05-20"},
        {"team": "<b>research</b>", "cluster": "north", "cause": "slow worker", "from": "2026-05-01"},
    ],
)
def test_filters_change_what_is_shown_to_the_sums_of_what_they_leave(
    browser: Browser, drawn_fleet: Path, filters: dict[str, str]
) -> None:
    browser.open(drawn_fleet)
    for name, value in filters.items():
        choice = value if name in {"from", "to", "by"} else browser.run(OPTION, name, value)
        browser.choose(**{name: choice})
    parts = _left(filters)
    lost = parts.lost_gpu_hours.sum()
    assert browser.text("sum").startswith(f"{hours(lost)} GPU-hours lost in ")
    if "by" in filters:
        names = {"job": parts.job_id, "host": parts.host.fillna("no single host"), "cause": parts.cause}
        of_names = parts.groupby(names[filters["by"]]).lost_gpu_hours.sum(
            min_count=1
        )  # null if no part states hours
        wanted = [None if np.isnan(each) else each for each in of_names.sort_values(ascending=False)]
        shown = list(_rows(browser, "fixes").values())
        assert [cells[0] for cells in shown] == [hours(each) for each in wanted[: len(shown)]]
    address = browser.driver.current_url
    browser.run("document.body.dataset.shown = ''")
    browser.driver.get("about:blank")
    browser.driver.get(address)
    browser.wait()
    assert browser.text("sum").startswith(f"{hours(lost)} GPU-hours lost in "), (
        "the address restores the filters"
    )
    assert browser.console() == []


def test_reset_brings_everything_back(browser: Browser, drawn_fleet: Path) -> None:
    browser.open(drawn_fleet)
    before = browser.text("sum")
    browser.choose(team="speech", cause="pause")
    assert browser.text("sum") != before
    browser.run("document.body.dataset.shown = ''")
    browser.driver.find_element(By.CSS_SELECTOR, "#filters [type=reset]").click()
    browser.wait()
    assert browser.text("sum") == before


def test_a_search_finds_every_job_and_host_with_its_page_or_the_command_that_makes_it(
    browser: Browser, drawn_fleet: Path
) -> None:
    browser.open(drawn_fleet)
    assert browser.run("return document.getElementById('found-jobs').hidden")
    _search(browser, "RAIN-0004")
    units = random_fleet().units.to_pandas()
    days = sorted(units[units.job_id == "pretrain-0004"].log_date.astype(str), reverse=True)
    assert [cells[:2] for cells in _cells(browser, "found")] == [
        ["pretrain-0004", f"job, {day}"] for day in days
    ]
    assert f"--job-id=pretrain-0004 --run-id=r1 --log-date {days[0]}" in browser.text("found")
    host = random_fleet().fixes.to_pandas().host.dropna().iloc[0]
    _search(browser, host)
    (row,) = _cells(browser, "found")
    assert row == [host, "host", "open"]
    lost = random_fleet().parts.to_pandas().query("host == @host").lost_gpu_hours.sum()
    assert browser.text("sum").startswith(f"{hours(lost)} GPU-hours lost in ")
    _search(browser, "no such name")
    assert "no job or host of the period has this name" in browser.text("found")
    assert browser.console() == []


def _search(browser: Browser, text: str) -> None:
    """Type text into the search field, and wait until the page is updated."""
    browser.run(
        "document.body.dataset.shown = ''; const e = document.getElementById('search'); "
        "e.value = arguments[0]; e.dispatchEvent(new Event('input'))",
        text,
    )
    browser.wait()


def test_a_list_is_sorted_by_its_headings_and_unexplained_stays_last(
    browser: Browser, drawn_fleet: Path
) -> None:
    browser.open(drawn_fleet)
    (most, *_), *_ = (cells[1:] for cells in _cells(browser, "fixes"))
    browser.driver.find_element(By.XPATH, "//table[@id='fixes']//button[contains(., 'lost')]").click()
    assert "sort-fixes" in browser.driver.current_url
    for button in browser.driver.find_elements(By.CSS_SELECTOR, "#fixes tfoot button"):
        button.send_keys(Keys.ENTER)
    *_, largest, last = _cells(browser, "fixes")
    assert (largest[1], last[0]) == (most, "unexplained")


def test_a_click_on_a_cell_shows_the_command_for_its_timeline_and_commands_are_copied(
    browser: Browser, tmp_path: Path
) -> None:
    page = job_page(sick_job(), "a b/warehouse")
    browser.open(report_files.add_page(tmp_path, job_page_path(date(2026, 1, 5), "job", "r1"), page))
    browser.run(CLICK, "#chart-step-map .mark-rect path")
    assert "--step " in browser.text("chosen-step")
    assert browser.run("return document.querySelectorAll('.command .copy').length") == 3
    names = browser.run("return [...document.querySelectorAll('.chart')].map((each) => each.ariaLabel)")
    assert "How much each worker alone adds to each step" in names
    assert len({*names}) == len(JOB_CHARTS)


def test_names_that_are_markup_are_shown_as_they_are(browser: Browser, drawn_fleet: Path) -> None:
    browser.open(drawn_fleet)
    for button in browser.driver.find_elements(By.CSS_SELECTOR, "tfoot button"):
        button.send_keys(Keys.ENTER)
    browser.choose(by="job")
    assert NAUGHTY in browser.text("fixes") + browser.text("left-out")
    assert browser.run("return document.images.length") == 0
    assert browser.driver.title.startswith("Fleet report, ")


def test_the_map_has_a_mark_where_a_culprit_begins(browser: Browser, tmp_path: Path) -> None:
    sick = sick_job()
    causes = [
        dict(row, culprits=[culprit(0.5, first_step=sick.steps[4]["step"], course="from", dp_rank=0)])
        if row["is_cause"]
        else row
        for row in sick.causes
    ]
    page = job_page(replace(sick, causes=causes))
    browser.open(report_files.add_page(tmp_path, job_page_path(date(2026, 1, 5), "job", "r1"), page))
    assert browser.console() == []
    assert not_drawn(browser, JOB_CHARTS) == []
    counted = "return document.querySelectorAll('#chart-step-map svg .mark-symbol.role-mark path').length"
    assert browser.run(counted) == 1


def test_script_that_gets_into_a_page_is_not_run(browser: Browser, drawn_fleet: Path) -> None:
    """The page's policy blocks injected scripts and requests, and the browser logs both."""
    browser.open(drawn_fleet)
    browser.run(SLIPPED_IN)
    assert browser.run("return document.body.dataset.slipped") is None
    refused = " ".join(browser.console())
    assert ["script-src" in refused, "connect-src" in refused] == [True, True]


def test_the_keyboard_reaches_everything_in_order(browser: Browser, drawn_fleet: Path) -> None:
    browser.open(drawn_fleet)
    visited = []
    for _ in range(30):
        browser.driver.switch_to.active_element.send_keys(Keys.TAB)
        visited.append(browser.run(FOCUS))
    wanted = ["skip", "All reports", "by", "from", "to", "team", "cluster", "cause", "search", "Reset"]
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
    (totals,) = tables.totals.to_pylist()
    assert browser.text("sum").startswith(f"{hours(totals['lost_gpu_hours'])} GPU-hours lost in ")
    assert "by week" in browser.text("trend-text")


@pytest.mark.parametrize(("trace", "is_hot"), [("SE", [True, True]), ("ST", [False, False, False, True])])
def test_maps_of_the_published_traces_show_what_the_paper_says(
    browser: Browser, published_traces: Path, tmp_path: Path, trace: str, is_hot: list[bool]
) -> None:
    """Maps of workers look as in the paper: all rows of SE are hot, and only the last row of ST."""
    rows = published.rank_steps(published_traces, trace)
    page = job_page(unit_tables(rows, published.manifest(published_traces, trace), trace))
    browser.open(report_files.add_page(tmp_path, job_page_path(date(2026, 1, 5), trace, "0"), page))
    by_row: dict[float, list[float]] = {}
    for top, fill in browser.run(CELLS):
        by_row.setdefault(top, []).append(_luminance(fill))
    assert [sum(row) / len(row) < 0.87 for _, row in sorted(by_row.items())] == is_hot, by_row


def not_drawn(browser: Browser, charts: Sequence[str]) -> list[str]:
    """Return the names of charts that show nothing."""
    return [name for name in charts if browser.run(MARKS, f"chart-{name}") < 2]


def _luminance(colour: str) -> float:
    red, green, blue = (int(part) / 255 for part in colour.removeprefix("rgb(").rstrip(")").split(","))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _rows(browser: Browser, table: str) -> dict[str, list[str]]:
    """Return the cells of each row of a table, without the first cell, by the text of the first cell."""
    return {cells[0]: cells[1:] for cells in _cells(browser, table)}


def _cells(browser: Browser, table: str) -> list[list[str]]:
    """Return the text of each cell of a table, row by row."""
    script = """return [...document.querySelectorAll(`#${arguments[0]} tbody tr`)].map(
        (row) => [...row.children].map((cell) => cell.textContent))"""
    found: list[list[str]] = browser.run(script, table)
    return found


def _left(filters: dict[str, str]) -> pd.DataFrame:
    """Return the rows of units' causes that the filters keep, computed by pandas to check the page."""
    units, parts = random_fleet().units.to_pandas(), random_fleet().parts.to_pandas()
    team, day = units.team.fillna("(not stated)"), units.log_date.astype(str)
    is_in = (team == filters.get("team", team)) & (units.cluster == filters.get("cluster", units.cluster))
    is_in &= day.between(filters.get("from", ""), filters.get("to", "9999"))
    cause = {"pauses (pause)": "pause", "slow worker": "slow_worker"}.get(filters.get("cause", ""))
    of_unit = ["log_date", "job_id"]
    left: pd.DataFrame = parts[parts.cause == (cause or parts.cause)].merge(units.loc[is_in, of_unit])
    return left
