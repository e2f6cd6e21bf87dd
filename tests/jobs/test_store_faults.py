"""Test what happens if a store fails, is slow, drops connections or refuses credentials.

Short faults are retried; otherwise the command ends with a clear error.
"""

from collections.abc import Iterator
from datetime import date

import pytest

from jobs import backfill
from jobs.landing.content import UnitFiles
from jobs.landing.files import LandedFile
from jobs.landing.formats.rows import Bounds
from jobs.landing.stores import store_of
from jobs.runtime import objects
from jobs.runtime.filesystems import StoreError
from jobs.warehouse import lease
from jobs.warehouse.stored import forget
from schemas.vocabulary import JOB_SLOWDOWN, JOBS
from tests.support.history import DAYS, History, assert_same_tables
from tests.support.stores import BUCKET, DROPPED, FAULTS, LOST, SLOW, Server

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def sound(server: Server) -> Iterator[None]:
    """Undo all faults that a test has set on the server."""
    yield
    server.spoil()


def days_with(history: History, name: str) -> set[date]:
    return {row["log_date"] for row in history.rows(name)}


def test_a_store_that_fails_costs_time_and_one_that_refuses_costs_the_rest_of_the_run(
    server: Server,
    remote: History,
    filled: History,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(lease, "LEASE_S", 1.0)  # the failed run could not release its lease
    paths = remote.settings.paths
    place = ["--landing", paths.landing, "--warehouse", paths.warehouse]

    def fill(day: date) -> int:
        return backfill.main([*place, "--from", str(day), "--to", str(day)])

    server.spoil(*FAULTS, every=17)
    assert fill(DAYS[0]) == 0
    assert {*server.spoiled()} == {*FAULTS}

    server.spoil(403, pattern=f"PUT .*/{JOB_SLOWDOWN}/_delta_log/", every=0)
    capsys.readouterr()
    assert fill(DAYS[1]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("backfill: error: ")
    assert "403" in last
    assert "spoiled by the test" in last
    server.spoil()
    forget()
    assert days_with(remote, JOBS) == {*DAYS}
    assert days_with(remote, JOB_SLOWDOWN) == {DAYS[0]}

    assert fill(DAYS[1]) == 0
    assert_same_tables(remote.told_by_a_store(), filled.told_by_a_store())


@pytest.mark.parametrize("fault", [500, 503, SLOW, DROPPED, LOST])
def test_a_small_file_is_asked_for_again(server: Server, fault: int | str) -> None:
    root = f"s3://{BUCKET}/again"
    objects.write(root, "a.jsonl", b"one")
    server.spoil(fault, pattern="GET .*a.jsonl", times=1)
    server.requests()
    with store_of(root).open(f"{BUCKET}/again/a.jsonl", 3) as opened:
        assert opened.read() == b"one"
    assert server.spoiled() == [fault]
    assert len(server.requests()) == (1 if fault == SLOW else 2)


def test_a_log_that_its_store_does_not_deliver_is_not_taken_for_a_bad_one(server: Server) -> None:
    root, name = f"s3://{BUCKET}/refused", "rank-0.jsonl"
    objects.write(root, name, b"one")
    server.spoil(403, pattern=f"GET .*{name}")
    file = LandedFile(DAYS[0], "job", "run", name, f"{BUCKET}/refused/{name}", 3)
    with pytest.raises(
        StoreError, match=f"{name} could not be read from its store: .*403.*; run the command again"
    ):
        UnitFiles(store_of(root), Bounds()).digest(file)


def test_a_landing_that_its_store_refuses_to_list_ends_a_run_with_one_line(server: Server) -> None:
    root = f"s3://{BUCKET}/unlisted"
    objects.write(root, "log_date=2026-01-05/_SUCCESS", b"")
    store = store_of(root)
    server.spoil(403, every=0)
    for asked in (store.is_there, store.folders, lambda: store.exists("_SUCCESS"), lambda: [*store.walk("")]):
        with pytest.raises(StoreError, match=r"unlisted.* could not be read .*with address and cred"):
            asked()


@pytest.mark.parametrize("root", ["hdfs://fleet/landing", "nix://fleet/landing"])
def test_a_url_that_nothing_here_reaches_is_one_line(root: str) -> None:
    with pytest.raises(StoreError, match=f"^{root} could not be read from its store: .*$"):
        store_of(root)
