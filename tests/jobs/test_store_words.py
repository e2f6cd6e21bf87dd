"""Test messages about wrong or failing stores, and the content types of pages in a store."""

import logging
from pathlib import Path
from typing import Any, NoReturn

import obstore
import pytest
from obstore.store import MemoryStore

from jobs import query
from jobs.entry_points.cli import entry_point
from jobs.runtime import objects
from jobs.runtime.places import PlaceError, storage_options
from jobs.warehouse import lease as module
from jobs.warehouse.lease import leased
from jobs.warehouse.lock import LOCK_NAME, this_process
from tests.jobs.conftest import Ask

ROOT = "s3://bucket/warehouse"
SILENT = "Generic S3 error: Error performing PUT http://127.0.0.1:1/bucket/warehouse/_lock in 30.0 s"
NO_KEYS = "Error performing PUT http://169.254.169.254/latest/api/token: 403 Forbidden"
NO_BUCKET = (
    "Generic S3 error \x1b[31m↳\x1b[0m 404 Not Found <?xml version='1.0'?> <Error><Code>NoSuchBucket</Code>"
    "<Message>The specified bucket does not exist</Message></Error>"
)


def raising(error: Exception) -> NoReturn:
    raise error


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    """A store in memory, which takes the place of the store of every URL."""
    made = MemoryStore()
    monkeypatch.setattr(objects, "store_at", lambda _: made)
    return made


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("index.html", "text/html"),
        ("page/report.css", "text/css"),
        ("a.svg", "image/svg+xml"),
        ("a.json", "application/json"),
        ("a.png", "image/png"),
        ("a.webp", "image/webp"),
        ("_lock", None),
    ],
)
def test_a_browser_shows_a_page_in_a_store(store: MemoryStore, name: str, kind: str | None) -> None:
    objects.write(ROOT, name, b"a")
    assert obstore.get(store, name).attributes.get("Content-Type") == kind


def test_a_folder_by_its_url_takes_pages_too(tmp_path: Path) -> None:
    objects.write(tmp_path.as_uri(), "index.html", b"a")
    assert (tmp_path / "index.html").read_bytes() == b"a"


def test_an_address_without_its_scheme_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "127.0.0.1:9000")
    wanted = (
        "^AWS_ENDPOINT_URL=127.0.0.1:9000 begins with neither http:// nor https://: as in http://127.0.0.1"
    )
    with pytest.raises(PlaceError, match=wanted):
        storage_options(ROOT)


@pytest.mark.parametrize(
    ("said", "status", "message"),
    [
        (NO_BUCKET, 2, f"the warehouse {ROOT}: its store has no such bucket; give another"),
        (NO_KEYS, 1, f"{ROOT}: no credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set"),
    ],
)
def test_a_question_says_what_its_store_lacks(
    monkeypatch: pytest.MonkeyPatch, call: Ask, said: str, status: int, message: str
) -> None:
    monkeypatch.setattr(objects, "content", lambda *_: raising(OSError(said)))
    found = call(query.main, "--warehouse", ROOT, "SELECT 1")
    assert found.status == status
    assert found.err.startswith(f"query: error: {message}")


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (
            OSError(SILENT),
            1,
            f"the store of {ROOT} did not do what was asked: {SILENT}; readers see the tables",
        ),
        (OSError(NO_KEYS), 1, f"the store of {ROOT} did not do what was asked: no credentials: AWS_ACCESS"),
        (OSError(NO_BUCKET), 2, f"the warehouse {ROOT}: its store has no such bucket; give another"),
        (OSError(28, "No space left on device"), 1, "OSError: [Errno 28] No space left on device"),
    ],
    ids=["silent", "keys", "bucket", "own"],
)
def test_a_run_that_its_store_ends_says_so_in_one_line(
    call: Ask, caplog: pytest.LogCaptureFixture, error: Exception, status: int, message: str
) -> None:
    night = entry_point("night", reads=lambda *_: raising(error))(lambda *_: {})
    found = call(night, "--warehouse", ROOT)
    assert found.status == status
    assert found.err.splitlines()[-1].startswith(f"night: error: {message}")
    is_own = isinstance(error, OSError) and error.errno is not None
    assert [record.exc_info is not None for record in caplog.records] == [True] * is_own


def test_a_lock_that_cannot_be_given_back_hides_no_error(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> NoReturn:
        monkeypatch.setattr(objects, "replace", lambda *_: raising(OSError(SILENT)))
        raise ValueError("of the run")

    with pytest.raises(ValueError, match="of the run"), leased(ROOT, this_process("night"), wait=False):
        fail()
    assert obstore.head(store, LOCK_NAME)
    (record,) = caplog.records
    assert (record.levelno, record.exc_info) == (logging.WARNING, None)
    assert record.getMessage() == f"the lock of {ROOT} ends by itself within 40 s: {SILENT}"


def test_a_store_that_was_silent_is_not_asked_once_more_for_the_lock(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with leased(ROOT, this_process("night"), wait=False):
        before = obstore.head(store, LOCK_NAME)["e_tag"]
        monkeypatch.setattr(module, "RENEWED_S", -1.0)
    assert obstore.head(store, LOCK_NAME)["e_tag"] == before
    assert caplog.messages == [f"the lock of {ROOT} ends by itself within 40 s: it was not renewed"]


def test_deltalake_gives_up_a_store_as_early_as_others(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (storage_options("az://container/warehouse") or {})["retry_timeout"] == "60s"
    how: dict[str, Any] = {}
    monkeypatch.setattr(objects, "from_url", lambda _, **given: how.update(given))
    objects.store_at.__wrapped__("az://container/warehouse")
    assert how["config"] is None
    assert how["retry_config"]["retry_timeout"].total_seconds() == 60
