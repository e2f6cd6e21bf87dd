"""A browser on this machine gets the pages of a report; requests that name another host are refused."""

import http.client
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest

from jobs.reading.database import Database
from jobs.report.links import job_page_path
from jobs.runtime.loopback import LOOPBACK
from jobs.runtime.settings import load_settings
from jobs.serve_pages import main
from jobs.serving import pages as served
from jobs.serving import server
from jobs.serving.pages import Pages
from jobs.serving.server import PageServer
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from tests.jobs.conftest import Ask, Demo
from tests.jobs.reading.warehouses import warehouse_of
from tests.jobs.report.fleets import NAUGHTY
from tests.support.examples import DAY, NEXT_DAY, table_rows

ENDLESS = "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t"
HOSTILE = job_page_path(DAY, NAUGHTY, "../../r1")


class Answer:
    def __init__(self, reply: http.client.HTTPResponse) -> None:
        self.status, self.headers, self.text = reply.status, reply.headers, reply.read().decode()


Get = Callable[..., Answer]


@pytest.fixture(autouse=True, scope="module")
def _short_library() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jobs.report.files.chart_library", lambda _: b"library")
        yield


def made(root: Path) -> Warehouse:
    """Write a warehouse of three units on two days; names in one of them contain markup and paths."""
    units: list[dict[str, Any]] = [
        {"job_id": NAUGHTY, "run_id": "../../r1", "status": "too_few_steps"},
        {"job_id": "llm-a"},
        {"job_id": "llm-a", "log_date": NEXT_DAY},
    ]
    keys: list[dict[str, Any]] = [
        {name: unit[name] for name in ("job_id", "run_id", "log_date") if name in unit} for unit in units
    ]
    rows = {name: table_rows(name, keys) for name in ("jobs", "fleet_day", "step_slowdown")}
    rows["worker_slowdown"] = table_rows("worker_slowdown", [key | {"host": NAUGHTY} for key in keys])
    return warehouse_of(root, job_slowdown=table_rows("job_slowdown", units), **rows)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory, _short_library: None) -> Pages:
    return Pages(load_settings(warehouse=made(tmp_path_factory.mktemp("served") / "warehouse").root))


@contextmanager
def serving(pages: Pages) -> Iterator[Get]:
    with PageServer(pages, 0) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()

        def get(path: str, host: str | None = None, method: str = "GET") -> Answer:
            port = listening.server_address[1]
            with closing(http.client.HTTPConnection(LOOPBACK, port, timeout=60)) as connection:
                connection.request(method, path, headers={"Host": host or f"{LOOPBACK}:{port}"})
                return Answer(connection.getresponse())

        try:
            yield get
        finally:
            listening.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def get(pages: Pages) -> Iterator[Get]:
    with serving(pages) as found:
        yield found


def links(text: str) -> list[str]:
    return [link for link in re.findall(r'<a [^>]*href="([^"]+)"', text) if link[:1] != "#"]


def test_the_root_is_the_latest_fleets_page_and_earlier_days_are_listed(get: Get) -> None:
    root = get("/")
    assert (root.status, root.headers["Location"]) == (302, f"/{NEXT_DAY}/index.html")
    assert "Fleet report" in get(root.headers["Location"]).text
    listed = links(get("/index.html").text)
    assert [each for each in listed if each.startswith(str(DAY))] == [f"{DAY}/index.html"]


@pytest.mark.parametrize("path", [f"/{DAY}", f"/{DAY}/"])
def test_the_folder_of_a_day_is_its_fleets_page(path: str, get: Get) -> None:
    root = get(path)
    assert (root.status, root.headers["Location"]) == (302, f"/{DAY}/index.html")


def test_every_unit_of_the_period_has_a_page(get: Get) -> None:
    fleet = get(f"/{NEXT_DAY}/index.html").text
    for path in (HOSTILE, job_page_path(DAY, "llm-a", "r3"), job_page_path(NEXT_DAY, "llm-a", "r3")):
        assert path.split("/")[-1] in fleet
        assert get(f"/{path}").status == 200


def test_hostile_names_are_inert(get: Get) -> None:
    for path in (f"/{HOSTILE}", f"/{NEXT_DAY}/index.html"):
        page = get(path)
        assert "<img src=x" not in page.text
        assert page.headers["X-Content-Type-Options"] == "nosniff"
        assert "script-src 'self';" in page.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd", "/%2e%2e/etc/passwd", f"/{DAY}/../../index.html", f"/{DAY}/jobs/../index.html",
        f"/{DAY}/jobs/none.html", f"/{DAY}/hosts/none.html", "/2026-13-01/index.html",
        "/2020-01-01/index.html",
        f"/{DAY}/jobs/report.css", f"/{DAY}/" + "a" * 5_000, f"/{DAY}/jobs/{NAUGHTY.replace(' ', '%20')}",
        "http://example.org/",
    ],
)  # fmt: skip
def test_a_path_leads_to_pages_alone(get: Get, path: str) -> None:
    answer = get(path)
    assert answer.status == 404
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert "<" not in answer.text


@pytest.mark.parametrize("host", ["example.org", "127.0.0.1", "localhost:1", "127.0.0.1.example.org:80"])
def test_only_the_own_name_is_answered(get: Get, host: str) -> None:
    assert get(f"/{DAY}/index.html", host).status == 421


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_can_be_written(get: Get, method: str) -> None:
    assert get(f"/{DAY}/index.html", method=method).status == 501


def test_a_new_publication_is_seen(tmp_path: Path) -> None:
    warehouse = made(tmp_path)
    with serving(Pages(load_settings(warehouse=warehouse.root))) as get:
        before = get("/index.html").text
        later = date(2026, 1, 9)
        rows = table_rows("job_slowdown", [{"log_date": later}])
        warehouse.replace(TABLES["job_slowdown"], rows, [later])
        assert get("/index.html").text == before
        Path(warehouse.root, "_latest_publication").write_bytes(b"0")
        assert get("/").headers["Location"] == f"/{later}/index.html"


def test_a_warehouse_that_was_away_is_served_when_it_is_back(tmp_path: Path) -> None:
    warehouse = Path(made(tmp_path / "warehouse").root)
    stated = warehouse / "_latest_publication"
    stated.write_bytes(b"0")
    with serving(Pages(load_settings(warehouse=str(warehouse)))) as get:
        warehouse.rename(tmp_path / "away")
        assert get("/").status == 500
        (tmp_path / "away").rename(warehouse)
        assert get(f"/{DAY}/index.html").status == 200
        for wrong in (b"9" * 5000, "\u00b2".encode()):
            stated.write_bytes(wrong)
            assert "restore its folder" in get("/").text
        stated.unlink()
        stated.mkdir()
        assert (get("/").status, get("/").text.count("\n")) == (500, 1)
        stated.rmdir()
        assert get(f"/{NEXT_DAY}/index.html").status == 200


def test_a_request_that_comes_a_byte_at_a_time_ends(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_SILENCE_S", 0.3)
    monkeypatch.setattr(server._Handler, "timeout", 5)
    with (
        PageServer(pages, 0) as listening,
        closing(socket.create_connection((LOOPBACK, listening.server_port))) as slow,
    ):
        slow.settimeout(0.1)
        listening.handle_request()
        has_ended = False
        for _ in range(100):
            with suppress(TimeoutError):
                with suppress(ConnectionError):
                    slow.send(b"A")
                    slow.recv(1)  # returns nothing at the end, or an error message
                has_ended = True
                break
    assert has_ended


def test_too_many_at_once_are_refused(get: Get, pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on, found = threading.Event(), threading.Event(), list[int]()
    stated = Database.stated

    def slow(database: Database) -> tuple[bytes | None, ...]:
        begun.set()
        assert go_on.wait(60)
        return stated(database)

    monkeypatch.setattr(Database, "stated", slow)
    asking = [threading.Thread(target=lambda: found.append(get("/").status)) for _ in range(8)]
    for each in asking:
        each.start()
    assert begun.wait(60)
    until_s = time.monotonic() + 60
    while (
        pages._waiting._value and time.monotonic() < until_s
    ):  # taking a place here could refuse one of the eight
        time.sleep(0.01)
    busy = get("/")
    go_on.set()
    for each in asking:
        each.join()
    assert (busy.status, busy.text) == (503, "8 pages are being made: try again in a moment\n")
    assert found == [302] * 8


def test_a_page_that_is_too_large_names_the_command(
    get: Get, pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "_MOST_PAGE", 100)
    pages._made.clear()
    answer = get(f"/{HOSTILE}")
    assert answer.status == 503
    assert "job-page --out FILE" in answer.text


def test_a_page_that_takes_too_long_ends(get: Get, pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "_MOST_SECONDS", 0.05)
    monkeypatch.setattr(served, "read_units", lambda reader, *_: reader.rows(ENDLESS))
    pages._made.clear()
    answer = get(f"/{HOSTILE}")
    assert (answer.status, answer.text) == (503, "the page takes longer than 0.05 s\n")


def test_wrong_places_are_one_line(call: Ask, tmp_path: Path, pages: Pages) -> None:
    status, _, err = call(main, "--warehouse", tmp_path / "none")
    assert (status, len(err.splitlines())) == (2, 1)
    warehouse = pages._settings.paths.warehouse
    with PageServer(pages, 0) as taken:
        status, _, err = call(main, "--warehouse", warehouse, "--port", taken.server_address[1])
    assert (status, len(err.splitlines())) == (2, 1)
    assert "0 takes a free one" in err


def test_pages_are_those_of_the_night_and_every_link_leads_somewhere(demo: Demo) -> None:
    day = "/2026-01-07/"
    written = [*(demo.report / day.strip("/")).glob("*s/*.html")]
    assert {page.parent.name for page in written} == {"jobs", "hosts"}
    with serving(Pages(load_settings(warehouse=str(demo.warehouse)))) as get:
        fleet = get(f"{day}index.html").text
        todo = {urljoin(day, page) for page in re.findall(r'"((?:\.\./[\d-]+/)?jobs/[\w.-]+)"', fleet)}
        assert len(todo) > 40
        seen = set(todo)
        while todo:
            page = todo.pop()
            answer = get(page)
            assert answer.status in (200, 302), page
            new = {urljoin(page, link).split("#")[0] for link in links(answer.text)} - seen
            todo |= new
            seen |= new
        for file in written:  # written pages also link to data docs
            found, kept = (
                re.sub(r"( · <a [^>]*>Data docs of the day|<a [^>]*>)|</a>", "", text)
                for text in (get(f"{day}{file.parent.name}/{file.name}").text, file.read_text())
            )
            assert found == kept
