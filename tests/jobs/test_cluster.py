"""Programs run on a standalone cluster whose executors get the project's code only from the project's zip."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.runtime.package import write_zip
from jobs.runtime.project import PROJECT
from tests.support.cluster import cluster, overlay
from tests.support.commands import spark_submit, start

pytestmark = pytest.mark.slow

PROGRAM = """
import sys
from jobs.runtime.session import session
from jobs.runtime.settings import load_settings

def where(batches):
    import pyarrow
    from udfs.simulate import rank_rows
    for batch in batches:
        yield pyarrow.record_batch({"file": [rank_rows.__file__] * len(batch)})

table, settings = sys.argv[1:]
with session(load_settings(settings), "program") as spark:
    spark.range(3).write.format("delta").save(table)
    rows = spark.read.format("delta").load(table).mapInArrow(where, "file string").collect()
    print("master", spark.sparkContext.master, "rows", len(rows), "code", rows[0].file)
"""


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of the cluster of all tests in this module: one worker with a folder of its own."""
    with cluster(tmp_path_factory.mktemp("cluster"), workers=1, cores=2) as started:
        yield started.url


def program(folder: Path) -> Path:
    file = folder / "program.py"
    file.write_text(PROGRAM)
    return file


def check(done: "subprocess.CompletedProcess[str]", master: str) -> None:
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("master "))
    assert line.startswith(f"master {master} rows 3 code ")
    assert line.endswith("/straggler-fleet.zip/udfs/simulate/rank_rows.py"), (
        "executors must run the code in the zip"
    )


def test_a_submitted_program_needs_nothing_but_the_zip(master: str, tmp_path: Path) -> None:
    archive = write_zip(tmp_path / "straggler-fleet.zip")
    command = spark_submit("--master", master, "--py-files", str(archive), str(program(tmp_path)))
    check(start([*command, str(tmp_path / "table"), str(overlay(tmp_path))], tmp_path), master)


def test_a_program_can_name_the_master_in_its_settings(master: str, tmp_path: Path) -> None:
    settings = overlay(tmp_path, f'master = "{master}"\n')
    command = [sys.executable, str(program(tmp_path)), str(tmp_path / "table"), str(settings)]
    check(start(command, tmp_path, {"PYTHONPATH": str(PROJECT)}), master)
