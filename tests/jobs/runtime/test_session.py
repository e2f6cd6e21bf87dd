"""Test the Spark session: its settings, the files that its workers find, and the ways to start it."""

import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.sql import SparkSession

from jobs.runtime import delta_jars, jvm
from jobs.runtime import session as module
from jobs.runtime.package import write_zip
from jobs.runtime.project import PROJECT
from jobs.runtime.session import SessionError, session
from jobs.runtime.settings import Settings, load_settings
from tests.support.commands import spark_submit, start

PROGRAM = """
import sys
from jobs.runtime.session import session
from jobs.runtime.settings import load_settings

def where(batches):
    import pyarrow
    from schemas import vocabulary
    for batch in batches:
        yield pyarrow.record_batch({"file": [vocabulary.__file__] * len(batch)})

table, settings = sys.argv[1:]
with session(load_settings(settings), "program") as spark:
    spark.range(3).write.format("delta").save(table)
    rows = spark.read.format("delta").load(table).mapInArrow(where, "file string").collect()
    print("master", spark.sparkContext.master, "rows", len(rows), "code", rows[0].file)
"""


BROKEN_OFF = Py4JError("org.apache.spark.sql.classic.SparkSession does not exist in the JVM")
OF_THE_JVM = Py4JError("An error occurred while calling o1.stop. Trace:\nMethod stop([]) does not exist")


class Stopping:
    """Substitute for a Spark session; its stop raises the given error."""

    def __init__(self, why: Exception) -> None:
        self._why = why

    def stop(self) -> None:
        raise self._why


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Path of a program that writes and reads a Delta table, with Python workers that import the project."""
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    return file


def test_the_active_session_is_shared_and_survives(spark: SparkSession, test_settings: Settings) -> None:
    with session(test_settings, "guest") as same:
        assert same is spark
    assert spark.range(2).count() == 2


def test_settings_of_conf_arrive_in_spark(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"


def test_a_local_session_stays_on_the_loopback_interface(spark: SparkSession) -> None:
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.driver.host") == conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert conf.get("spark.ui.enabled") == "false"


def test_workers_run_this_python_and_find_the_project(spark: SparkSession) -> None:
    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = [f"{sys.executable} {import_module('udfs.simulate.rank_rows').__file__}"] * batch.num_rows
            yield pa.record_batch({"found": found})

    rows = spark.range(1).mapInArrow(look, "found string").collect()
    assert rows[0].found == f"{sys.executable} {PROJECT / 'udfs' / 'simulate' / 'rank_rows.py'}"


@pytest.mark.slow
def test_a_program_needs_nothing_exported_and_what_is_exported_wrongly_does_not_count(
    program: Path, tmp_path: Path
) -> None:
    wrong = {"SPARK_HOME": "/nowhere", "PYSPARK_PYTHON": "/nowhere/python", "PYTHONPATH": "/nowhere"}
    # Only this process is given the project's path, which the session must pass on to its workers.
    find = f"import runpy, sys; sys.path.insert(0, {str(PROJECT)!r})"
    start_it = f"{find}; runpy.run_path({str(program)!r}, {{}}, '__main__')"
    done = start([sys.executable, "-c", start_it, str(tmp_path / "table"), "local"], tmp_path, wrong)
    assert done.returncode == 0, done.stderr
    assert last_line(done.stdout) == f"master local[*, 2] rows 3 code {PROJECT / 'schemas' / 'vocabulary.py'}"


@pytest.mark.slow
def test_spark_submit_needs_nothing_but_the_zip(program: Path, tmp_path: Path) -> None:
    archive = write_zip(tmp_path / "project.zip")
    command = spark_submit("--master", "local[1]", "--py-files", str(archive), str(program))
    done = start([*command, str(tmp_path / "table"), "local"], tmp_path)
    assert done.returncode == 0, done.stderr
    line = last_line(done.stdout)
    assert line.startswith("master local[1] rows 3 code ")
    assert line.endswith("project.zip/schemas/vocabulary.py")


def test_jars_of_another_version_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_jars, "IVY", tmp_path)
    (tmp_path / "jars").mkdir()
    jars = [tmp_path / "jars" / name for name in ("g_a-1.0.jar", "g_helper-1.0.jar")]
    for jar in jars:
        jar.touch()
    assert delta_jars.resolved_jars(["g:a:1.0"]) == [str(jar) for jar in jars]
    assert delta_jars.resolved_jars(["g:a:1.1"]) == []


def test_without_deltas_jars_the_session_says_what_to_do(program: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(program), str(tmp_path / "table"), str(without_delta(tmp_path))]
    done = start(command, tmp_path, {"PYTHONPATH": str(PROJECT)})
    assert done.returncode == 1
    assert last_line(done.stderr) == (
        "jobs.runtime.session.SessionError: Delta's JARs (io.delta:delta-none:0.0.0) are missing: "
        "run `make jars` once with network, or give spark-submit --packages io.delta:delta-none:0.0.0"
    )


@pytest.mark.slow
def test_without_deltas_jars_a_submitted_program_says_what_to_do(program: Path, tmp_path: Path) -> None:
    archive = write_zip(tmp_path / "project.zip")
    command = spark_submit("--py-files", str(archive), str(program), str(tmp_path / "table"))
    done = start([*command, str(without_delta(tmp_path))], tmp_path)
    assert done.returncode == 1
    # Spark sends both outputs of a submitted Python program to standard output.
    assert last_line(done.stdout).startswith(
        "jobs.runtime.session.SessionError: Delta's JARs (io.delta:delta-none:0.0.0)"
    )


def test_the_fetch_says_what_could_not_be_fetched(tmp_path: Path) -> None:
    overlay = without_delta(tmp_path)
    code = (
        "from jobs.runtime import delta_jars; from jobs.runtime.settings import load_settings\n"
        f"delta_jars.IVY = delta_jars.Path({str(tmp_path / 'ivy')!r})\n"
        f"delta_jars.fetch(load_settings({str(overlay)!r}).spark)"
    )
    line = last_line(start([sys.executable, "-c", code]).stderr)
    assert line.startswith("jobs.runtime.delta_jars.DeltaJarsError: cannot fetch io.delta:delta-none:0.0.0: ")
    assert "not found" in line


def without_delta(folder: Path) -> Path:
    """Return a file of settings that require a missing version of Delta, without access to a network."""
    ivy = folder / "ivy-settings.xml"
    ivy.write_text(
        '<ivysettings><settings defaultResolver="none"/><resolvers><filesystem name="none">'
        f'<artifact pattern="{folder}/[artifact].jar"/></filesystem></resolvers></ivysettings>'
    )
    overlay = folder / "without-delta.toml"
    overlay.write_text(
        '[spark]\npackages = ["io.delta:delta-none:0.0.0"]\n'
        f'[spark.conf]\n"spark.jars.ivySettings" = "{ivy}"\n"spark.jars.ivy" = "{folder / "ivy"}"\n'
    )
    return overlay


def last_line(text: str) -> str:
    return text.strip().splitlines()[-1]


def test_too_few_descriptors_for_spark_s_jars_are_one_line_and_no_failed_jvm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (256, 256))
    monkeypatch.setattr(module, "launch_jvm", lambda *_: pytest.fail("not started"))
    with pytest.raises(SessionError, match="may open 256: raise the hard limit, as by ulimit -n 1024"):
        module._start_jvm(load_settings("base").spark)


@pytest.mark.parametrize("why", [BROKEN_OFF, Py4JNetworkError("Answer is empty"), ConnectionResetError()])
def test_a_jvm_that_ended_while_its_session_stops_hides_no_other_error(
    why: Exception, monkeypatch: pytest.MonkeyPatch, test_settings: Settings
) -> None:
    """If the JVM ran out of memory and ended, errors while stopping the session do not hide that error."""
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(module, "make_session", lambda *_: Stopping(why))
    with pytest.raises(RuntimeError, match="out of memory"), session(test_settings, "test"):
        raise RuntimeError("out of memory")


def test_an_error_of_a_living_jvm_while_its_session_stops_is_raised(
    monkeypatch: pytest.MonkeyPatch, test_settings: Settings
) -> None:
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(module, "make_session", lambda *_: Stopping(OF_THE_JVM))
    with pytest.raises(Py4JError, match=r"o1\.stop"), session(test_settings, "test"):
        pass


def test_a_jvm_that_was_still_starting_when_interrupted_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """If Ctrl-C interrupts the start of a JVM, that JVM is ended, and no other process."""
    started: list[subprocess.Popen[bytes]] = []

    def interrupted(*_: object) -> None:
        started.append(subprocess.Popen(["/bin/sleep", "60"]))
        raise KeyboardInterrupt

    monkeypatch.setattr(jvm, "launch_gateway", interrupted)
    monkeypatch.setattr(jvm, "_set_environment", lambda _: None)
    others = subprocess.Popen(["/bin/sleep", "60"])
    try:
        with Path("/dev/null").open("wb") as errors, pytest.raises(KeyboardInterrupt):
            jvm.launch_jvm({}, errors)
        assert others.poll() is None
        assert started[0].wait(5) < 0
    finally:
        for each in (others, *started):
            each.kill()
            each.wait()
