"""The project on a real standalone cluster: master and worker processes, executors without our folder."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pyspark
import pytest

from jobs.java import find_java_home
from jobs.package import write_zip
from jobs.project import PROJECT
from tests.jobs.commands import spark_submit, start

pytestmark = pytest.mark.slow

HOST = "127.0.0.1"
PATIENCE_S = 60.0

PROGRAM = """
import sys
from jobs.session import session
from jobs.settings import load_settings

def where(batches):
    import pyarrow
    from udfs import rank_rows
    for batch in batches:
        yield pyarrow.record_batch({"file": [rank_rows.__file__] * len(batch)})

table, settings = sys.argv[1:]
with session(load_settings(settings), "program") as spark:
    spark.range(3).write.format("delta").save(table)
    rows = spark.read.format("delta").load(table).mapInArrow(where, "file string").collect()
    print("master", spark.sparkContext.master, "rows", len(rows), "code", rows[0].file)
"""


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def wait_for(port: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with closing(socket.socket()) as probe:
            if probe.connect_ex((HOST, port)) == 0:
                return
        assert time.monotonic() < deadline, f"nothing listens on port {port}"
        time.sleep(0.2)


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a cluster of one worker that lives as long as this module's tests, in a folder of its own."""
    folder = tmp_path_factory.mktemp("cluster")
    port, worker_port = free_port(), free_port()
    url = f"spark://{HOST}:{port}"
    environment = {
        "PATH": os.environ["PATH"],
        "JAVA_HOME": str(find_java_home()),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_WORKER_DIR": str(folder),
    }
    at = ["--host", HOST, "--webui-port", "0"]
    daemons = [
        ["master.Master", *at, "--port", str(port)],
        ["worker.Worker", *at, "--port", str(worker_port), "--cores", "2", "--memory", "1g", url],
    ]
    with ExitStack() as stack:
        for (name, *arguments), listens in zip(daemons, (port, worker_port), strict=True):
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
            command = [spark_class, f"org.apache.spark.deploy.{name}", *arguments]
            daemon = subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log)
            stack.callback(daemon.wait)
            stack.callback(daemon.terminate)
            wait_for(listens)
        yield url


def program(folder: Path) -> Path:
    file = folder / "program.py"
    file.write_text(PROGRAM)
    return file


def overlay(folder: Path, spark: str = "") -> Path:
    """The cluster's settings, for one that is small and all on this machine."""
    file = folder / "overlay.toml"
    file.write_text(
        f'extends = "cluster"\n[spark]\n{spark}[spark.conf]\n"spark.driver.host" = "{HOST}"\n'
        f'"spark.driver.bindAddress" = "{HOST}"\n"spark.sql.shuffle.partitions" = "2"\n'
        '"spark.databricks.delta.snapshotPartitions" = "2"\n'
    )
    return file


def check(done: "subprocess.CompletedProcess[str]", master: str) -> None:
    assert done.returncode == 0, done.stderr
    told = next(line for line in done.stdout.splitlines() if line.startswith("master "))
    assert told.startswith(f"master {master} rows 3 code ")
    assert told.endswith("/straggler-fleet.zip/udfs/rank_rows.py"), (
        "executors did not run the code of the zip"
    )


def test_a_submitted_program_needs_nothing_but_the_zip(master: str, tmp_path: Path) -> None:
    archive = write_zip(tmp_path / "straggler-fleet.zip")
    command = spark_submit("--master", master, "--py-files", str(archive), str(program(tmp_path)))
    check(start([*command, str(tmp_path / "table"), str(overlay(tmp_path))], tmp_path), master)


def test_a_program_can_name_the_master_in_its_settings(master: str, tmp_path: Path) -> None:
    settings = overlay(tmp_path, f'master = "{master}"\n')
    command = [sys.executable, str(program(tmp_path)), str(tmp_path / "table"), str(settings)]
    check(start(command, tmp_path, {"PYTHONPATH": str(PROJECT)}), master)
