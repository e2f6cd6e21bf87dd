"""Reading a file whose bytes have changed on the disk raises an error instead of giving wrong figures."""

import re
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from jobs.reading.database import Database
from jobs.reading.duckdb_reader import DuckDbReader
from jobs.runtime.errors import DamagedError
from jobs.warehouse import file_digests, store_files, stored_units
from jobs.warehouse import publication as protocol
from jobs.warehouse.delta_files import few_rows
from jobs.warehouse.delta_tables import DeltaTables
from jobs.warehouse.file_digests import check_digests
from jobs.warehouse.publication import publication
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.vocabulary import PUBLICATIONS, RANK_STEPS
from tests.jobs.reading.warehouses import replicated, warehouse_of

OPS = f"SELECT * FROM {RANK_STEPS}"


def damaged(root: Path) -> Path:
    """Write a table of recorded ops, and flip a bit in the durations of one file; return the file's path."""
    warehouse_of(root, **{RANK_STEPS: replicated()[RANK_STEPS]})
    file = min((root / RANK_STEPS).rglob("*.parquet"))
    group = pq.ParquetFile(file).metadata.row_group(0)
    (times,) = (
        group.column(place)
        for place in range(group.num_columns)
        if group.column(place).path_in_schema.startswith("duration_us")
    )
    content = bytearray(file.read_bytes())
    content[times.data_page_offset + times.total_compressed_size // 2] ^= 1
    file.write_bytes(content)
    return file


def published(root: Path) -> Warehouse:
    """Write a table of recorded ops, and publish it."""
    made = warehouse_of(root, **{RANK_STEPS: replicated()[RANK_STEPS]})
    with publication(made, "ingest", [], [RANK_STEPS]):
        pass
    return made


def flip(file: Path) -> None:
    """Flip a bit in the middle of a file, which leaves its size unchanged."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def test_one_flipped_bit_is_named(tmp_path: Path) -> None:
    file = damaged(tmp_path)
    with pytest.raises(DamagedError, match=f"{file.name} cannot be read, restore it from a copy: .*CRC"):
        few_rows(str(tmp_path / RANK_STEPS), None, TABLES[RANK_STEPS], None)


def test_a_task_of_the_simulation_refuses_it(tmp_path: Path) -> None:
    file = damaged(tmp_path)
    with pytest.raises(OSError, match="CRC"):
        stored_units._rows([(str(file), 0)], {})


def test_a_question_to_a_store_refuses_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    damaged(tmp_path)
    path, schema = (tmp_path / RANK_STEPS).as_uri(), TABLES[RANK_STEPS].arrow_schema
    with pytest.raises(DamagedError, match="CRC"):
        store_files.rows_of(path, DeltaTable(path), schema)
    monkeypatch.setattr(store_files, "WHOLE_BYTES", 0)
    rows = store_files.rows_of(path, DeltaTable(path), schema)
    with pytest.raises(OSError, match="CRC"):
        rows.to_table()


def test_a_log_of_publications_that_lost_its_end_is_an_error(tmp_path: Path) -> None:
    published(tmp_path)
    log = tmp_path / PUBLICATIONS / "_delta_log"
    max(log.glob("*.json")).unlink()
    says = f"publications in {tmp_path} ends at 1, but publication '2' was made: restore its folder"
    for spelled in (str(tmp_path), tmp_path.as_uri()):  # a URL is read like a store
        with pytest.raises(DamagedError, match=says.replace(str(tmp_path), spelled)):
            DeltaTables(spelled).is_there(RANK_STEPS)
    with pytest.raises(DamagedError, match=says):
        _ = warehouse_of(tmp_path).published
    shutil.rmtree(log.parent)
    with pytest.raises(DamagedError, match="ends at 0"):
        DeltaTables(str(tmp_path)).is_there(RANK_STEPS)


@pytest.mark.parametrize("name", [RANK_STEPS, PUBLICATIONS])
def test_what_verifies_no_pages_compares_the_file_with_its_digest(tmp_path: Path, name: str) -> None:
    """Readers that do not verify the checksums of Parquet pages compare each file with its stored digest."""
    published(tmp_path)
    assert DuckDbReader(Database(str(tmp_path))).rows(OPS).num_rows
    files, size = check_digests(str(tmp_path))
    stored = [*tmp_path.rglob("*.parquet")]
    assert (files, size) == (len(stored), sum(file.stat().st_size for file in stored))
    file = min((tmp_path / name).rglob("*.parquet"))
    flip(file)
    why = "changed since it was written, by the digests in _digests: restore from a copy"
    says = f"{re.escape(str(file))}: {why}"
    with pytest.raises(DamagedError, match=says):
        DuckDbReader(Database(str(tmp_path))).rows(OPS)
    with pytest.raises(DamagedError, match=says):
        check_digests(str(tmp_path))


def test_of_files_that_changed_one_is_named_and_the_others_counted(tmp_path: Path) -> None:
    published(tmp_path)
    first, second = sorted((tmp_path / PUBLICATIONS).rglob("*.parquet"))
    flip(first)
    flip(second)
    with pytest.raises(DamagedError, match=f"{re.escape(str(first))} and 1 more file: changed since"):
        check_digests(str(tmp_path))


def test_a_large_table_is_left_to_maintenance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published(tmp_path)
    flip(min((tmp_path / RANK_STEPS).rglob("*.parquet")))
    monkeypatch.setattr(file_digests, "_MOST_AT_OPENING", 10)
    assert DeltaTables(str(tmp_path)).stored(RANK_STEPS)
    with pytest.raises(DamagedError, match="changed since it was written"):
        check_digests(str(tmp_path))


def test_digests_that_a_killed_writer_did_not_keep_are_kept_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(protocol, "keep_digests", lambda *_: None)
        made = published(tmp_path)
    assert check_digests(str(tmp_path)) == (0, 0)
    with publication(made, "simulate", [], []):
        pass
    stored = [*tmp_path.rglob("*.parquet")]
    assert check_digests(str(tmp_path))[0] == len(stored)


@pytest.mark.parametrize("content", [b"", b"[]", b'{"jobs": 1}', b'{"jobs": {"version": 1}}', b"\xff"])
def test_digests_that_are_nonsense_are_one_line_and_publish_nothing(tmp_path: Path, content: bytes) -> None:
    made = published(tmp_path)
    number = made.published.number
    (tmp_path / "_digests").write_bytes(content)
    with pytest.raises(DamagedError, match="_digests is damaged: "):
        DeltaTables(str(tmp_path)).stored(RANK_STEPS)
    with (
        pytest.raises(DamagedError, match="_digests is damaged"),
        publication(made, "ingest", [], [RANK_STEPS]),
    ):
        pass
    assert warehouse_of(tmp_path).published.number == number


def test_a_published_file_that_is_gone_is_named(tmp_path: Path) -> None:
    published(tmp_path)
    file = min((tmp_path / RANK_STEPS).rglob("*.parquet"))
    file.unlink()
    with pytest.raises(DamagedError, match=f"{file.name} cannot be read, restore it from a copy: No such"):
        DuckDbReader(Database(str(tmp_path))).rows(OPS)
