"""Reports are replaced as whole folders, listed latest first, and safely named for any job id."""

from datetime import date
from pathlib import Path

import pytest

from jobs.report import files as report_files
from jobs.report.files import add_page, existing_pages, replace_publication
from jobs.report.links import job_page_path
from tests.jobs.report.pages import Page

DAY, NEXT = date(2026, 1, 5), date(2026, 1, 6)
PAGE = job_page_path(DAY, "job", "r1")


@pytest.fixture(autouse=True)
def _short_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the chart library, which takes seconds to build, by a stub; browser tests use the real one."""
    monkeypatch.setattr("vl_convert.javascript_bundle", lambda snippet: f"library; {snippet}")


def test_a_library_that_cannot_be_kept_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    kept = report_files.chart_library(tmp_path)
    assert report_files.chart_library(tmp_path / "file" / "below") == kept


def test_an_install_without_charts_keeps_those_of_one_that_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = report_files.chart_library(tmp_path)
    monkeypatch.setattr(report_files, "find_spec", lambda _: None)
    assert report_files.chart_library(tmp_path) == kept
    assert b"Charts need the extra" in report_files.chart_library(tmp_path / "other")


def files(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


def test_a_publication_is_replaced_as_a_whole(tmp_path: Path) -> None:
    replace_publication(
        tmp_path, DAY, {"index.html": b"first", "jobs/a.html": b"a", "headline.txt": b"Much."}
    )
    folder = replace_publication(tmp_path, DAY, {"index.html": b"second"})
    assert (folder / "index.html").read_bytes() == b"second"
    shared = {f"{DAY}/{name}" for name in ("charts-library.js", "dictionary.html", "report.js", "report.css")}
    assert {name for name in files(tmp_path) if not name.startswith(".")} == {
        f"{DAY}/index.html",
        "index.html",
        *shared,
    }


def test_what_a_killed_run_left_is_no_publication_and_goes_away(tmp_path: Path) -> None:
    leftover = tmp_path / f".new-{DAY}" / "index.html"
    leftover.parent.mkdir()
    leftover.write_text("half")
    replace_publication(tmp_path, NEXT, {"index.html": b"next"})
    assert Page((tmp_path / "index.html").read_bytes()).all("a", "href")[1:] == [f"{NEXT}/index.html"] * 2
    replace_publication(tmp_path, DAY, {"index.html": b"whole"})
    assert not leftover.parent.exists()


def test_the_list_of_all_names_the_latest_first_with_their_headlines(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    for day in (DAY, NEXT):
        replace_publication(tmp_path, day, {"index.html": b"page", "headline.txt": f"<{day}>".encode()})
    page = Page((tmp_path / "index.html").read_bytes())
    assert page.all("a", "href")[1:] == [f"{each}/index.html" for each in (NEXT, NEXT, DAY)]
    assert f"Open the latest report, {NEXT}" in page.text
    assert f"Report of {DAY} . <{DAY}>" in page.text


def test_a_page_on_demand_joins_its_publication_or_begins_one(tmp_path: Path) -> None:
    page = add_page(tmp_path, PAGE, b"page")
    assert page == tmp_path / PAGE
    assert {f"{DAY}/report.css", f"{DAY}/report.js", f"{DAY}/charts-library.js"} <= files(tmp_path)
    assert existing_pages(tmp_path) == {PAGE}


def test_the_library_is_put_together_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_publication(tmp_path, DAY, {"index.html": b"page"})
    monkeypatch.setattr("vl_convert.javascript_bundle", lambda snippet: pytest.fail("again"))
    replace_publication(tmp_path, NEXT, {"index.html": b"page"})
    library = (tmp_path / str(NEXT) / "charts-library.js").read_text()
    assert library == "library; window.vegaEmbed = vegaEmbed;"
    assert report_files.existing_pages(tmp_path) == set()


@pytest.mark.parametrize("job_id", ["../../etc/passwd", "a/b", "..", "", "ключ 🔑", "x" * 500, "a b"])
def test_a_job_id_never_leads_out_of_its_folder(job_id: str) -> None:
    day, folder, name = job_page_path(DAY, job_id, "r1").split("/")
    assert (day, folder) == ("2026-01-05", "jobs")
    assert name.isascii()
    assert len(name) < 120
    assert ".." not in name


def test_other_ids_have_other_names() -> None:
    ids = [
        ("a", "b"),
        ("a", "b "),
        ("ab", ""),
        ("", "ab"),
        ("a-b", "c"),
        ("a", "b-c"),
        ("a/b", "c"),
        ("ж", ""),
        ("", "ж"),
    ]
    assert len({job_page_path(DAY, *each) for each in ids}) == len(ids)
