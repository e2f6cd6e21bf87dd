"""A run's temporary folder is deleted at its end or, if the run was killed, by the next run."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from socket import gethostname

import psutil
import pytest
from pyspark import SparkConf
from pyspark.errors import PySparkException

from jobs.runtime import jvm, run_folder
from jobs.runtime.project import PROJECT
from tests.support.commands import SHORT_LIVED

RUN = """
import sys
from jobs.runtime.run_folder import run_folder
from jobs.runtime.session import session
from jobs.runtime.settings import load_settings

with session(load_settings("local"), "run") as spark:
    spark.range(9, numPartitions=2).repartition(3).count()
    print(run_folder().name, *sorted(each.name.split("-")[0] for each in run_folder().iterdir()), flush=True)
    sys.stdin.readline()
"""


@contextmanager
def running(folder: Path) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Start a run whose temporary folder is in `folder`; yield its process and the names that it prints.

    Yields the process, and the names that the run prints: its own folder, and what that folder contains.
    """
    environment = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": str(PROJECT)}
    environment["SPARK_SUBMIT_OPTS"] = SHORT_LIVED
    with subprocess.Popen(
        [sys.executable, "-c", RUN],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as run:
        assert run.stdout is not None
        yield run, run.stdout.readline().split()


def names(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


def test_a_killed_run_leaves_one_folder_that_the_next_removes_and_an_ended_one_nothing(
    tmp_path: Path,
) -> None:
    with running(tmp_path) as (run, (left, *holds)):
        assert {"blockmgr", "spark"} <= set(holds)
        beneath = psutil.Process(run.pid).children(recursive=True)
        run.send_signal(signal.SIGKILL)
    assert psutil.wait_procs(beneath, timeout=60)[1] == []
    assert names(tmp_path) == [left]
    with running(tmp_path) as (run, (own, *_)):
        assert names(tmp_path) == [own] != [left]
        beneath = psutil.Process(run.pid).children(recursive=True)
        run.communicate("end\n")
    assert psutil.wait_procs(beneath, timeout=60)[1] == []
    assert names(tmp_path) == []


def test_folders_of_living_processes_and_of_other_names_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_folder, "gettempdir", lambda: str(tmp_path))
    own = psutil.Process()
    started = round(own.create_time())
    start = f"straggler-fleet-{gethostname()}-"
    living = f"{start}{own.pid}-{started}"
    stay = {living, f"{start}x", "straggler-fleet-elsewhere-1-1", f"{start}2-2"}
    for name in {
        *stay,
        f"{start}{own.pid}-{started - 60}",
    }:  # the last name is of an earlier process with this id
        (tmp_path / name).mkdir()
    (tmp_path / f"{start}2-2").rmdir()
    (tmp_path / f"{start}2-2").symlink_to(tmp_path / living)
    run_folder.remove_left_behind()
    assert set(names(tmp_path)) == stay


def launched_with(conf: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the options on the command line of a JVM that would start with the given settings."""
    given: dict[str, str] = {}

    def launch(options: SparkConf, _: object) -> None:
        given.update(options.getAll())
        raise PySparkException("enough")

    monkeypatch.setattr(jvm, "launch_gateway", launch)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    with pytest.raises(jvm.JvmError):
        jvm.launch_jvm(conf, BytesIO())
    return given


def test_only_what_a_jvm_needs_at_its_start_is_on_its_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only settings that a JVM needs at its start are on its command line, as others may be secret."""
    secret = (
        *("spark.hadoop.fs.s3a.secret.key", "spark.ssl.keyPassword", "spark.hadoop.fs.s3a.access.key"),
        *("spark.hadoop.fs.azure.sas.box.store.dfs.core.windows.net", "spark.hadoop.javax.jdo.option.URL"),
    )
    plain = {"spark.kerberos.keytab": "/etc/keytab", "spark.master": "local[1]", "spark.driver.memory": "1g"}
    plain["spark.jars.ivySettings"] = "/etc/keys/ivy.xml"
    plain["spark.driver.defaultJavaOptions"] = "-Djavax.net.ssl.keyStore=/etc/keys"
    given = launched_with({**dict.fromkeys(secret, "hidden"), **plain}, monkeypatch)
    assert plain.items() <= given.items()
    assert given.keys() - plain.keys() == {"spark.driver.extraJavaOptions"}
    assert "hidden" not in "".join(given.values())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.jars.repositories", "https://us:hidden@mirror.example/maven"),
        ("spark.jars", "https://box.example/a.jar?sv=2022&sig=hidden"),
        ("spark.driver.extraJavaOptions", "-Djavax.net.ssl.trustStorePassword=hidden"),
    ],
)
def test_a_secret_in_what_a_jvm_needs_is_an_error_that_does_not_show_it(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(jvm.SecretError, match=name) as error:
        launched_with({name: value, "spark.master": "local[1]"}, monkeypatch)
    assert "hidden" not in str(error.value)
