"""What changed on its disk is an error, not other figures."""

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from jobs.reading import store_files
from jobs.reading.delta_tables import DeltaTables
from jobs.runtime.errors import DamagedError
from jobs.warehouse import stored_units
from jobs.warehouse.local_tables import few_rows
from jobs.warehouse.publication import publication
from jobs.warehouse.stored_units import Piece
from schemas.tables import TABLES
from schemas.vocabulary import PUBLICATIONS, RANK_STEPS
from tests.jobs.reading.warehouses import replicated, warehouse_of


def damaged(root: Path) -> Path:
    """Make a table of recorded ops, and flip a bit within the times of one of its files."""
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


def test_one_flipped_bit_is_named(tmp_path: Path) -> None:
    file = damaged(tmp_path)
    with pytest.raises(DamagedError, match=f"{file.name} cannot be read, restore it from a copy: .*CRC"):
        few_rows(str(tmp_path / RANK_STEPS), None, TABLES[RANK_STEPS], None)


def test_a_task_of_the_simulation_refuses_it(tmp_path: Path) -> None:
    file = damaged(tmp_path)
    with pytest.raises(OSError, match="CRC"):
        stored_units._rows([Piece(str(file), (0,))], {})


def test_a_question_to_a_store_refuses_it(tmp_path: Path) -> None:
    damaged(tmp_path)
    rows = store_files.dataset(DeltaTable(tmp_path / RANK_STEPS), TABLES[RANK_STEPS].arrow_schema)
    with pytest.raises(OSError, match="CRC"):
        rows.to_table()


def test_a_log_of_publications_that_lost_its_end_is_an_error(tmp_path: Path) -> None:
    """Else readers would see the tables as they were, or without rows."""
    made = warehouse_of(tmp_path, **{RANK_STEPS: replicated()[RANK_STEPS]})
    with publication(made, "ingest", [], [RANK_STEPS]):
        pass
    log = tmp_path / PUBLICATIONS / "_delta_log"
    max(log.glob("*.json")).unlink()
    says = f"publications in {tmp_path} ends at 1, and publication '2' was made: restore its folder"
    with pytest.raises(DamagedError, match=says):
        DeltaTables(str(tmp_path)).is_there(RANK_STEPS)
    with pytest.raises(DamagedError, match=says):
        _ = warehouse_of(tmp_path).published
    shutil.rmtree(log.parent)
    with pytest.raises(DamagedError, match="ends at 0"):
        DeltaTables(str(tmp_path)).is_there(RANK_STEPS)
