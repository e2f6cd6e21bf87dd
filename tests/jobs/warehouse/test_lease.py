"""The lock of a warehouse in a store admits one writer, which renews it and notices if it is lost."""

import time
from dataclasses import replace
from datetime import date

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from jobs.runtime import objects
from jobs.runtime.places import storage_options
from jobs.warehouse import lease as module
from jobs.warehouse.latest import LATEST_PUBLICATION
from jobs.warehouse.lease import Lease, LeaseLostError, held, leased
from jobs.warehouse.lock import LOCK_NAME, LockedError, content_of, this_process
from jobs.warehouse.publication import publication, recover
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.vocabulary import PUBLICATIONS, STAGE_SLOWDOWN
from tests.jobs.warehouse.test_publication import NO_SPARK
from tests.support.examples import DAY, NEXT_DAY, table_rows
from tests.support.history import KilledError
from tests.support.stores import BUCKET, LOST, Server

pytestmark = pytest.mark.slow

ELSEWHERE = replace(this_process("run_nightly"), host="another-host")
HERE = this_process("backfill")


@pytest.fixture
def root(server: Server, request: pytest.FixtureRequest) -> str:
    return f"s3://{BUCKET}/{request.node.name}"


def test_one_writer_holds_it_and_gives_it_back(root: str) -> None:
    with leased(root, ELSEWHERE, wait=False):
        named = f"{root} is being written by run_nightly .* on another-host.*within a minute"
        with pytest.raises(LockedError, match=named), leased(root, HERE, wait=False):
            pass
        held(root).check()  # type: ignore[union-attr]  # the lock is held here
    with leased(root, HERE, wait=False):
        assert held(root) is not None
    assert held(root) is None


def test_one_that_is_not_renewed_ends_by_the_stores_clock(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    objects.create(root, LOCK_NAME, content_of(ELSEWHERE))
    with pytest.raises(LockedError), leased(root, HERE, wait=False):
        pass
    monkeypatch.setattr(module, "LEASE_S", 1.0)
    with leased(root, HERE, wait=True):
        lease = held(root)
        assert lease is not None
        assert lease.was_left


def test_one_of_a_process_that_has_ended_here_holds_nobody_up(root: str) -> None:
    objects.create(root, LOCK_NAME, content_of(replace(HERE, processes={2**22 - 3: 1.0})))
    with leased(root, HERE, wait=False):
        pass


def test_it_is_renewed_while_it_is_held(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RENEWED_S", 0.05)
    with leased(root, HERE, wait=False):
        before = objects.version(root, LOCK_NAME)
        until = time.monotonic() + 60
        while objects.version(root, LOCK_NAME) == before and time.monotonic() < until:
            time.sleep(0.05)
        assert objects.version(root, LOCK_NAME) != before


def test_a_renewal_whose_answer_is_lost_has_lost_nothing(root: str, server: Server) -> None:
    with leased(root, HERE, wait=False):
        lease = held(root)
        assert lease is not None
        server.spoil(LOST, pattern="PUT .*_lock", times=1)
        lease.check()
        assert server.spoiled() == [LOST]
        lease.check()
    assert objects.content(root, LOCK_NAME) == b"{}"


def test_a_commit_whose_answer_is_lost_is_made_once_more(root: str, server: Server) -> None:
    with leased(root, HERE, wait=False):
        publish(root, 1.0)
        server.spoil(LOST, pattern=f"PUT .*{STAGE_SLOWDOWN}/_delta_log/", times=1)
        publish(root, 2.0)
        assert server.spoiled() == [LOST]
    assert slowdowns(root) == [2.0]


def taken_by_another(root: str) -> None:
    """Let another writer take over the lock, as happens while its holder is paused."""
    found = objects.version(root, LOCK_NAME)
    assert found is not None
    assert objects.replace(root, LOCK_NAME, content_of(ELSEWHERE), found.mark)


def slowdowns(root: str) -> list[float]:
    found: list[float] = Warehouse(NO_SPARK, root).rows(TABLES[STAGE_SLOWDOWN])["slowdown"].to_pylist()
    return found


def write(warehouse: Warehouse, slowdown: float, day: date = DAY) -> None:
    rows = table_rows(STAGE_SLOWDOWN, [{"slowdown": slowdown, "log_date": day}])
    warehouse.replace(TABLES[STAGE_SLOWDOWN], rows, [day])


def publish(root: str, slowdown: float, day: date = DAY) -> None:
    warehouse = Warehouse(NO_SPARK, root)
    with publication(warehouse, "simulate", [day], [STAGE_SLOWDOWN]):
        write(warehouse, slowdown, day)


def overtaken(root: str) -> None:
    """Start a publication, and let another writer take over the lock between its commit and its end."""
    paused = Warehouse(NO_SPARK, root)
    with publication(paused, "simulate", [DAY], [STAGE_SLOWDOWN]):
        write(paused, 2.0)
        taken_by_another(root)


def test_a_paused_holder_publishes_nothing_and_the_next_one_undoes_its_commits(root: str) -> None:
    with leased(root, HERE, wait=False):
        publish(root, 1.0)
    with leased(root, HERE, wait=False), pytest.raises(LeaseLostError, match="published nothing since"):
        overtaken(root)
    assert slowdowns(root) == [1.0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LEASE_S", -1.0)
        with leased(root, HERE, wait=False):
            warehouse = Warehouse(NO_SPARK, root)
            assert recover(warehouse) == [STAGE_SLOWDOWN]
            assert slowdowns(root) == [1.0]
            publish(root, 3.0, NEXT_DAY)
    assert sorted(slowdowns(root)) == [1.0, 3.0]


def test_a_publication_whose_writer_pauses_behind_its_last_check_comes_too_late(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer cannot publish if another writer has published since its last check of the lock."""
    with leased(root, HERE, wait=False):
        publish(root, 1.0)
        check = Lease.check

        def paused_behind(lease: Lease) -> None:
            check(lease)
            monkeypatch.setattr(Lease, "check", check)
            path = f"{root}/{PUBLICATIONS}"
            other = DeltaTable(path, storage_options=storage_options(path))
            other.create_write_transaction([], "append", other.schema(), [])

        monkeypatch.setattr(Lease, "check", paused_behind)
        with pytest.raises(CommitFailedError):
            publish(root, 2.0)
    assert slowdowns(root) == [1.0]


def test_what_only_holders_write_is_written_by_nobody_who_lost_the_lock(root: str) -> None:
    objects.write(root, LATEST_PUBLICATION, b"1 {}")
    with leased(root, HERE, wait=False):
        lease = held(root)
        assert lease is not None
        lease.put(LATEST_PUBLICATION, b"2 {}")
        taken_by_another(root)
        objects.write(root, LATEST_PUBLICATION, b"3 {}")
        for name in (
            LATEST_PUBLICATION,
            "_publishing.json",
        ):  # a file that it has read before, and one that it has not
            with pytest.raises(LeaseLostError):
                lease.put(name, b"4 {}")
    assert objects.content(root, LATEST_PUBLICATION) == b"3 {}"
    assert objects.content(root, "_publishing.json") is None


def test_what_a_paused_holder_wrote_late_is_written_over(root: str) -> None:
    with leased(root, HERE, wait=False):
        lease = held(root)
        assert lease is not None
        lease.put(LATEST_PUBLICATION, b"2 {}")
        objects.write(root, LATEST_PUBLICATION, b"1 {}")
        lease.put(LATEST_PUBLICATION, b"3 {}")
    assert objects.content(root, LATEST_PUBLICATION) == b"3 {}"


def test_a_row_whose_writer_was_killed_right_behind_it_is_found_by_the_next(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(lease: Lease, name: str, content: bytes) -> None:
        if name == LATEST_PUBLICATION:
            monkeypatch.setattr(Lease, "holds", lambda lease: False)  # a killed writer undoes nothing
            raise KilledError
        put(lease, name, content)

    with leased(root, HERE, wait=False):
        publish(root, 1.0)
    put = Lease.put
    with monkeypatch.context() as patch:
        patch.setattr(Lease, "put", killed)
        with leased(root, HERE, wait=False), pytest.raises(KilledError):
            publish(root, 2.0)
    assert slowdowns(root) == [1.0]  # of the publication before
    monkeypatch.undo()
    with leased(root, HERE, wait=False):
        assert recover(Warehouse(NO_SPARK, root)) == []
    assert slowdowns(root) == [2.0]
