"""A commit that a paused writer makes too late does not change what readers see."""

from collections.abc import Sequence
from datetime import date
from pathlib import Path

import pytest
from deltalake import CommitProperties, DeltaTable
from deltalake.transaction import AddAction, RemoveAction

from jobs.runtime.places import storage_options
from jobs.warehouse import delta_files
from jobs.warehouse.lease import Lease, leased
from jobs.warehouse.lock import this_process
from jobs.warehouse.publication import publication, recover
from jobs.warehouse.staging import Staging
from jobs.warehouse.stored import forget
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.vocabulary import STAGE_SLOWDOWN, STEP_SLOWDOWN
from tests.jobs.warehouse.test_publication import NO_SPARK
from tests.support.examples import DAY, NEXT_DAY, table_rows
from tests.support.history import KilledError
from tests.support.stores import BUCKET, Server

pytestmark = pytest.mark.slow

BOTH = (STAGE_SLOWDOWN, STEP_SLOWDOWN)


def write(warehouse: Warehouse, name: str, slowdown: float, day: date) -> None:
    rows = table_rows(name, [{"slowdown": slowdown, "log_date": day}])
    warehouse.replace(TABLES[name], rows, [day])


class Late:
    """A commit that would replace a day's rows; its writer has prepared it, and makes it after a pause."""

    def __init__(self, root: str, name: str) -> None:
        path = f"{root}/{name}"
        self.log = DeltaTable(path, storage_options=storage_options(path))
        staging = Staging(root, "paused")
        staging.write_sorted(TABLES[name], table_rows(name, [{"slowdown": 666.0, "log_date": DAY}]))
        (file,) = staging.close()
        partition: dict[str, str | None] = dict(file.partition)
        old = self.log.get_add_actions().column("path").to_pylist()
        self.actions: list[AddAction | RemoveAction] = [
            AddAction(file.path, file.bytes, partition, 0, data_change=True, stats=file.stats)
        ]
        self.actions += [RemoveAction(each, True, 0, 1, partition) for each in old]

    def land(self) -> None:
        alone = CommitProperties(max_commit_retries=0)
        schema = self.log.schema()
        self.log.create_write_transaction(
            self.actions, "append", schema, ["log_date"], commit_properties=alone
        )


def published_then_late(root: str, late_in: Sequence[str]) -> list[Late]:
    """Publish a day in both tables; return a paused writer's prepared commits, one for each named table."""
    with leased(root, this_process("run_nightly"), wait=False):
        warehouse = Warehouse(NO_SPARK, root)
        with publication(warehouse, "simulate", [DAY], BOTH):
            for name in BOTH:
                write(warehouse, name, 1.0, DAY)
        return [Late(root, name) for name in late_in]


@pytest.mark.parametrize("late_in", [BOTH, (STAGE_SLOWDOWN,)], ids=["both", "the one that does not grow"])
@pytest.mark.parametrize("grows", [False, True], ids=["as declared", "one gets columns"])
def test_late_commits_are_undone_in_every_table(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late_in: Sequence[str], *, grows: bool
) -> None:
    assert server.environment
    root = f"s3://{BUCKET}/{tmp_path.name}"
    late = published_then_late(root, late_in)
    if grows:
        monkeypatch.setattr(delta_files, "_lacks", lambda _, table: table.name == STEP_SLOWDOWN)
    with leased(root, this_process("backfill"), wait=False):
        warehouse = Warehouse(NO_SPARK, root)
        with publication(warehouse, "simulate", [NEXT_DAY], BOTH):
            for each in late:
                each.land()
            for name in reversed(BOTH):
                write(warehouse, name, 2.0, NEXT_DAY)
    forget()
    seen = Warehouse(NO_SPARK, root)
    for name in BOTH:
        assert sorted(seen.rows(TABLES[name])["slowdown"].to_pylist()) == [1.0, 2.0]


def test_the_undo_of_a_killed_writer_publishes_no_late_commit(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Undoing a killed writer's work leaves another writer's late commit to another table unpublished."""
    assert server.environment
    root = f"s3://{BUCKET}/{tmp_path.name}"
    (late,) = published_then_late(root, [STAGE_SLOWDOWN])
    monkeypatch.setattr(Lease, "holds", lambda _: False)  # a killed writer undoes nothing

    def killed() -> None:
        warehouse = Warehouse(NO_SPARK, root)
        with publication(warehouse, "simulate", [NEXT_DAY], [STEP_SLOWDOWN]):
            write(warehouse, STEP_SLOWDOWN, 2.0, NEXT_DAY)
            late.land()
            raise KilledError

    with leased(root, this_process("backfill"), wait=False), pytest.raises(KilledError):
        killed()
    with leased(root, this_process("run_nightly"), wait=False):
        assert recover(Warehouse(NO_SPARK, root)) == [STEP_SLOWDOWN]
    seen = Warehouse(NO_SPARK, root)
    assert [seen.rows(TABLES[name])["slowdown"].to_pylist() for name in BOTH] == [[1.0], [1.0]]
