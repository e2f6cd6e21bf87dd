"""Start a standalone Spark cluster on the loopback interface, from the installed Spark."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import pyspark

from jobs.runtime.java import find_java_home
from tests.support.ports import HOST, free_port

PATIENCE_S = 60.0


class Cluster(NamedTuple):
    """A running cluster: URL of the master, and process ids of the workers."""

    url: str
    workers: tuple[int, ...]


@contextmanager
def cluster(folder: Path, workers: int, cores: int) -> Iterator[Cluster]:
    """Run a master and workers of `cores` cores each, with files in `folder`, until the block ends."""
    port = free_port()
    url = f"spark://{HOST}:{port}"
    with ExitStack() as stack:
        _start(stack, folder, "master.Master", port)
        found = []
        for number in range(workers):
            of_worker = [
                "--cores",
                str(cores),
                "--memory",
                "1g",
                "--work-dir",
                str(folder / f"work-{number}"),
            ]
            found.append(_start(stack, folder, "worker.Worker", free_port(), *of_worker, url))
        yield Cluster(url, tuple(found))


def _start(stack: ExitStack, folder: Path, name: str, port: int, *arguments: str) -> int:
    """Start a daemon that ends with the exit stack; return its process id once it listens on its port."""
    environment = {"PATH": os.environ["PATH"], "JAVA_HOME": str(find_java_home()), "SPARK_LOCAL_IP": HOST}
    log = stack.enter_context((folder / f"{name}-{port}.log").open("wb"))
    spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    at = ["--host", HOST, "--webui-port", "0", "--port", str(port)]
    daemon = subprocess.Popen(
        [spark_class, f"org.apache.spark.deploy.{name}", *at, *arguments],
        env=environment,
        cwd=folder,
        stdout=log,
        stderr=log,
    )
    stack.callback(daemon.wait)
    stack.callback(daemon.terminate)
    _wait_for(port)
    return daemon.pid


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with closing(socket.socket()) as probe:
            if probe.connect_ex((HOST, port)) == 0:
                return
        assert time.monotonic() < deadline, f"nothing listens on port {port}"
        time.sleep(0.2)


def overlay(folder: Path, spark: str = "") -> Path:
    """Write settings for a small cluster on this machine, which extend the project's settings."""
    file = folder / "overlay.toml"
    file.write_text(
        f'extends = "cluster"\n[spark]\n{spark}[spark.conf]\n"spark.driver.host" = "{HOST}"\n'
        f'"spark.driver.bindAddress" = "{HOST}"\n"spark.sql.shuffle.partitions" = "4"\n'
        '"spark.databricks.delta.snapshotPartitions" = "2"\n'
        '"spark.sql.sources.parallelPartitionDiscovery.parallelism" = "4"\n'
    )
    return file
