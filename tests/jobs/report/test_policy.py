"""A page's security policy allows only the page's own scripts and styles, inline ones by their hashes."""

import re
from base64 import b64decode
from collections.abc import Callable
from hashlib import sha256

import pytest

from jobs.gates.quality_docs import Page as QualityPage
from jobs.gates.quality_docs import html
from jobs.report import templates
from jobs.report.fleet_page import fleet_page
from jobs.report.job_page import job_page
from jobs.report.templates import dictionary, dictionary_alone
from tests.jobs.report.fleets import fleet, publication
from tests.jobs.report.pages import Page
from tests.jobs.report.units import sick_job
from tests.support.examples import DAY

LIST = {"root": ".", "title": "Fleet reports", "publications": []}


def of_fleet() -> bytes:
    drawn = fleet(runs=12, days=3)
    return fleet_page(drawn, publication(drawn))


PAGES: dict[str, Callable[[], bytes]] = {
    "fleet": of_fleet,
    "job": lambda: job_page(sick_job()),
    "list of reports": lambda: templates.page("index.html", LIST),
    "data docs": lambda: html(QualityPage("ingest", [DAY], "/w")).encode(),
    "dictionary": dictionary,
    "dictionary alone": dictionary_alone,
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_loads_nothing_from_elsewhere_and_runs_only_what_is_ours(name: str) -> None:
    made = PAGES[name]()
    page = Page(made)
    stated = [
        dict(values)["content"] or "" for tag, values in page.tags if tag == "meta" and "content" in values
    ]
    (policy,) = [text for text in stated if text.startswith("default-src 'none'; ")]
    allowed = {rule.split()[0]: rule.split()[1:] for rule in policy.split("; ")}
    assert allowed.pop("connect-src") == allowed.pop("base-uri") == allowed.pop("form-action") == ["'none'"]
    assert set(allowed) <= {"default-src", "script-src", "style-src", "img-src"}
    assert allowed.pop("img-src", ["data:"]) == ["data:"]
    text = made.decode()
    inline = {tag: re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL) for tag in ("style", "script")}
    for tag, contents in inline.items():
        sources = allowed.get(f"{tag}-src", [])
        hashes = [b64decode(source[8:-1]) for source in sources if source.startswith("'sha256-")]
        assert hashes == [sha256(content.encode()).digest() for content in contents]
        if not contents:
            assert sources in ([], ["'self'", "file:"])
    assert not re.search(r"<[^>]+\s(?:style|on[a-z]+)=", text)


def test_names_and_dates_are_not_broken_and_markup_stays_text() -> None:
    assert templates.unbroken("<b> of GPU-hours to node-0070, 2026-01-05") == (
        '&lt;b&gt; of GPU-hours to <span class="name">node-0070</span>, <span class="name">2026-01-05</span>'
    )
