"""However a publication ends, readers see either all tables before it or all tables after it."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from jobs.runtime.errors import DamagedError
from jobs.warehouse import delta_files, stored
from jobs.warehouse import publication as protocol
from jobs.warehouse.publication import publication, recover
from jobs.warehouse.small_files import SmallFiles
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.vocabulary import DP_RANK_SLOWDOWN, PUBLICATIONS, STAGE_SLOWDOWN
from tests.support.examples import DAY, table_rows

NAMES = (STAGE_SLOWDOWN, DP_RANK_SLOWDOWN)
NO_SPARK = cast("SparkSession", None)
"""Takes the place of a Spark session, which few rows in a local warehouse do not need."""


class DeadError(BaseException):
    """Stands for the sudden end of a process; no handler of Exception catches it."""


def warehouse_in(root: Path) -> Warehouse:
    return Warehouse(NO_SPARK, str(root))


def publish(root: Path, slowdown: float) -> None:
    warehouse = warehouse_in(root)
    with publication(warehouse, "simulate", [DAY], NAMES):
        for name in NAMES:
            warehouse.replace(TABLES[name], table_rows(name, [{"slowdown": slowdown}]), [DAY])


def versions(root: Path) -> list[int | None]:
    """Return the newest version number of each table, which may not be published."""
    return [stored.newest_version(warehouse_in(root).path(name)) for name in NAMES]


def seen(root: Path) -> list[list[float]]:
    """Return the slowdowns in each table, as a reader sees them that opens the warehouse now."""
    warehouse = warehouse_in(root)
    return [warehouse.rows(TABLES[name])["slowdown"].to_pylist() for name in NAMES]


def die_at(patch: pytest.MonkeyPatch, step: int, *, after: bool) -> list[str]:
    """Raise DeadError at a step that changes files; return the list of steps, which grows as they are taken.

    step : number of the step, from 1
    after : raise after the step instead of before it
    """
    taken: list[str] = []

    def dying(owner: Any, name: str) -> None:  # noqa: ANN401  # modules and classes
        real: Callable[..., object] = getattr(owner, name)

        def or_die(*arguments: object, **named: object) -> object:
            taken.append(name)
            if len(taken) == step and not after:
                raise DeadError
            result = real(*arguments, **named)
            if len(taken) == step:
                raise DeadError
            return result

        patch.setattr(owner, name, or_die)

    for owner, name in (
        (delta_files, "create"),
        (delta_files, "commit"),
        (protocol, "restore"),
        (SmallFiles, "write"),
        (SmallFiles, "remove"),
    ):
        dying(owner, name)
    return taken


@pytest.mark.parametrize("first", [True, False], ids=["first", "later"])
def test_whatever_ends_a_publication_readers_see_all_of_it_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, first: bool
) -> None:
    """Whatever step a publication or its undoing ends at, readers see all of the publication or nothing.

    This holds for a warehouse's first publication and for later ones.
    """
    before = [[], []] if first else [[1.0], [1.0]]
    outcomes: list[list[list[float]]] = []
    taken: list[str] = []
    undos: set[int] = set()
    for step in range(1, 30):
        for after in (False, True):
            root = tmp_path / f"{step}{after}"
            if not first:
                publish(root, 1.0)
            with monkeypatch.context() as patch:
                patch.setattr(protocol, "recover", lambda _: [])  # a dead process undoes nothing
                taken = die_at(patch, step, after=after)
                try:
                    publish(root, 2.0)
                except DeadError:
                    outcomes.append(seen(root))
                else:
                    assert step == len(taken) + 1
                    assert seen(root) == [[2.0], [2.0]]
                    continue
            then = outcomes[-1]
            assert then in (before, [[2.0], [2.0]])
            for undone in range(1, 30):  # the undoing dies too, each time one step later
                with monkeypatch.context() as patch:
                    steps = die_at(patch, undone, after=after)
                    with suppress(DeadError):
                        recover(warehouse_in(root))
                assert seen(root) == then
                if len(steps) < undone:
                    break
            undos.add(undone)
            assert not (root / "_publishing.json").exists()
            newest = versions(root)
            publish(root, 3.0)
            assert seen(root) == [[3.0], [3.0]]
            assert newest != versions(root)
        if step > len(taken):
            break
    assert max(undos) > 5
    assert before in outcomes
    assert [[2.0], [2.0]] in outcomes


def test_an_error_in_a_publication_takes_it_back_at_once(tmp_path: Path) -> None:
    publish(tmp_path, 1.0)
    warehouse = warehouse_in(tmp_path)

    def fill_the_disk() -> None:
        with publication(warehouse, "simulate", [DAY], NAMES):
            warehouse.replace(TABLES[STAGE_SLOWDOWN], table_rows(STAGE_SLOWDOWN, [{"slowdown": 2.0}]), [DAY])
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        fill_the_disk()
    stages = warehouse.path(STAGE_SLOWDOWN)
    newest = delta_files.few_rows(stages, None, TABLES[STAGE_SLOWDOWN], None)
    assert newest is not None
    assert newest["slowdown"].to_pylist() == [1.0], (
        "the newest version, which other engines read, is restored too"
    )
    assert seen(tmp_path) == [[1.0], [1.0]]


def test_the_first_error_is_raised_where_taking_back_fails_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(tmp_path, 1.0)

    def fails(*_: object) -> bool:
        raise OSError("disk full")

    def wrong_rows() -> None:
        with publication(warehouse_in(tmp_path), "simulate", [DAY], NAMES):
            raise ValueError("wrong rows")

    monkeypatch.setattr(protocol, "restore", fails)
    with pytest.raises(ValueError, match="wrong rows"):
        wrong_rows()
    monkeypatch.undo()
    recover(warehouse_in(tmp_path))
    assert seen(tmp_path) == [[1.0], [1.0]]


def test_a_warehouse_of_before_there_were_publications_is_read_as_it_is(tmp_path: Path) -> None:
    warehouse = warehouse_in(tmp_path)
    warehouse.replace(TABLES[STAGE_SLOWDOWN], table_rows(STAGE_SLOWDOWN, [{"slowdown": 1.0}]), [DAY])
    assert seen(tmp_path) == [[1.0], []]
    publish(tmp_path, 2.0)
    assert seen(tmp_path) == [[2.0], [2.0]]
    phases = warehouse_in(tmp_path).rows(TABLES[PUBLICATIONS])["phase"].to_pylist()
    assert sorted(phases) == ["begin", "simulate"]


def test_what_another_commits_is_seen_with_the_next_publication(tmp_path: Path) -> None:
    publish(tmp_path, 1.0)
    other = table_rows(STAGE_SLOWDOWN, [{"slowdown": 7.0}])
    warehouse_in(tmp_path).replace(TABLES[STAGE_SLOWDOWN], other, [DAY])
    assert seen(tmp_path) == [[1.0], [1.0]]
    warehouse = warehouse_in(tmp_path)
    with publication(warehouse, "simulate", [DAY], [DP_RANK_SLOWDOWN]):
        pass
    assert seen(tmp_path) == [[7.0], [1.0]]
    assert stored.newest_version(warehouse.path(STAGE_SLOWDOWN)) == 2


def test_a_warehouse_may_have_any_name(tmp_path: Path) -> None:
    publish(tmp_path / "Zoë's warehouse", 1.0)
    assert seen(tmp_path / "Zoë's warehouse") == [[1.0], [1.0]]


@pytest.mark.parametrize("content", [b'{"publication": 3, "bef', b"[1]", b"7", b'{"publication": 3}'])
def test_an_intent_that_cannot_be_read_is_an_error_that_names_it(tmp_path: Path, content: bytes) -> None:
    """A damaged _publishing.json raises an error that names it: which versions to restore is not known."""
    publish(tmp_path, 1.0)
    (tmp_path / "_publishing.json").write_bytes(content)
    with pytest.raises(DamagedError, match=r"_publishing\.json is damaged"):
        recover(warehouse_in(tmp_path))
    assert (tmp_path / "_publishing.json").exists()
    assert seen(tmp_path) == [[1.0], [1.0]]
