"""Two writers that each keep a copy of the same table's log see each other's commits."""

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction
from obstore.store import MemoryStore

from jobs.runtime import objects
from jobs.warehouse.log_mirror import LogMirror

ROOT = "s3://bucket/table"


@pytest.fixture
def mirrors(monkeypatch: pytest.MonkeyPatch) -> list[LogMirror]:
    made = MemoryStore()
    monkeypatch.setattr(objects, "store_at", lambda _: made)
    found = [LogMirror(ROOT), LogMirror(ROOT)]
    schema = pa.schema([pa.field("a", pa.int64())])
    found[0].commit(lambda: DeltaTable.create(found[0].folder, schema, mode="ignore"), is_alone=False)
    return found


def add(mirror: LogMirror, log: DeltaTable, name: str) -> None:
    actions: list[AddAction | RemoveAction] = [AddAction(name, 1, {}, 0, data_change=True, stats="{}")]
    mirror.commit(lambda: log.create_write_transaction(actions, "append", log.schema(), []), is_alone=False)


@pytest.mark.parametrize("others", [1, 5, 13], ids=["one", "until a checkpoint", "checkpoints between"])
def test_a_commit_follows_all_that_another_has_made_since(mirrors: list[LogMirror], others: int) -> None:
    own, other = mirrors
    log = own.at(None)
    names = [f"other-{number}" for number in range(others)]
    for name in names:
        add(other, other.at(None), name)
    add(own, log, "own")
    for mirror in (own, LogMirror(ROOT)):
        found = mirror.at(None)
        assert found.version() == others + 1
        assert sorted(found.get_add_actions().column("path").to_pylist()) == sorted([*names, "own"])
