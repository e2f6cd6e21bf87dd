"""Test how a task starts an entry point, and how the exit status sets the task's state; without Spark."""

import json
import os
import re
import shlex
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, Asset
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from dags.operators.alerts import GateRefused, WrongSettings
from dags.operators.assets import HISTORY
from dags.operators.spark_submit import SparkSubmitOperator
from jobs.emitter.rank_log_writer import finish_day
from jobs.runtime.java import find_java_home
from jobs.runtime.project import PROJECT
from tests.dags.conftest import Run, stand_in
from tests.support.examples import DAY

PRINT_ARGUMENTS = """
printf '<%s>' "$@" > "$ARGS"
cp "$2" "$ARGS.zip"
echo "$PWD|$SPARK_HOME|$PYSPARK_PYTHON|$SPARK_CONF_DIR|$(command -v python)|$JAVA_HOME" > "$ARGS.environment"
echo summary
"""


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder with an executable `python`, beside which a test writes a script named spark-submit."""
    programs = tmp_path / "environment" / "bin"
    programs.mkdir(parents=True)
    write_script(programs / "python", f'exec "{sys.executable}" "$@"')
    monkeypatch.setattr(sys, "executable", str(programs / "python"))
    monkeypatch.setenv("ARGS", str(tmp_path / "arguments"))
    return programs


def write_script(file: Path, text: str) -> None:
    file.write_text(f"#!/bin/bash\n{text}\n")
    file.chmod(0o755)


def stage(**settings: Any) -> SparkSubmitOperator:  # noqa: ANN401  # any arguments of the operator
    return SparkSubmitOperator(
        task_id="stage", entry_point="ingest_rank_logs", log_date="2026-01-05", **settings
    )


def test_a_phase_is_submitted_with_the_projects_zip_and_the_day(environment: Path, tmp_path: Path) -> None:
    write_script(environment / "spark-submit", PRINT_ARGUMENTS)
    assert stage().execute({}) == "summary"
    arguments = (tmp_path / "arguments").read_text().replace("><", " ").strip("<>").split()
    options = ["--py-files", "--properties-file", "--load-spark-defaults"]
    assert [arguments[at] for at in (0, 2, 4)] == options
    assert arguments[5:] == ["jobs/ingest_rank_logs.py", "--log-date", "2026-01-05"]
    with zipfile.ZipFile(tmp_path / "arguments.zip") as archive:
        assert {"jobs/ingest_rank_logs.py", "conf/base.toml"} <= set(archive.namelist())
    assert not any(Path(file).exists() for file in (arguments[1], arguments[3]))


@pytest.mark.parametrize("conf", [None, "/etc/spark"])
def test_of_what_the_worker_has_exported_only_its_own_settings_of_spark_count(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, conf: str | None
) -> None:
    for name in ("SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "ENVIRONMENT"):
        monkeypatch.setenv(name, "/nowhere")
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    if conf:
        monkeypatch.setenv("SPARK_CONF_DIR", conf)
    write_script(environment / "spark-submit", PRINT_ARGUMENTS)
    stage(landing="my logs", warehouse="s3a://b/w$HOME", settings="a.toml").execute({})
    python = environment / "python"
    wanted = f"{PROJECT}||{python}|{conf or PROJECT / 'conf'}|{python}|{find_java_home()}\n"
    assert (tmp_path / "arguments.environment").read_text() == wanted
    whole = "<2026-01-05><--landing><my logs><--warehouse><s3a://b/w$HOME><--settings><a.toml>"
    assert (tmp_path / "arguments").read_text().endswith(whole)


def test_a_folder_of_temporary_files_may_have_a_space_in_its_name(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spaced = tmp_path / "my files"
    spaced.mkdir()
    monkeypatch.setenv("TMPDIR", str(spaced))
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Da=b")
    write_script(environment / "spark-submit", 'echo "$SPARK_SUBMIT_OPTS"')
    folder, other = shlex.split(str(stage().execute({})))  # Spark's launcher splits the variable like this
    assert folder.startswith(f"-Djava.io.tmpdir={spaced}/")
    assert other == "-Da=b"


def test_without_java_the_task_says_so_and_is_not_retried(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_script(environment / "spark-submit", PRINT_ARGUMENTS)
    write_script(environment / "python", 'echo "Java 17 or 21 is needed" >&2; exit 1')
    monkeypatch.setenv("PATH", os.defpath)
    with pytest.raises(AirflowFailException, match=r"wrong arguments or settings: Java 17 or 21 is needed$"):
        stage().execute({})


@pytest.mark.parametrize(
    ("status", "error", "message"),
    [
        (1, AirflowException, "stage: exit status 1: the reason"),
        (2, WrongSettings, "stage: wrong arguments or settings: the reason"),
        (
            3,
            GateRefused,
            "stage: a quality gate refused: the reason",
        ),
        (137, AirflowException, "stage: exit status 137: the reason"),
    ],
)
def test_the_message_has_the_last_line_and_what_its_exit_status_means(
    environment: Path, status: int, error: type[Exception], message: str
) -> None:
    write_script(environment / "spark-submit", f"echo first; echo the reason >&2; exit {status}")
    with pytest.raises(error) as raised:
        stage().execute({})
    assert type(raised.value) is error
    assert str(raised.value) == message


def test_a_failure_that_passes_leaves_a_complete_night(nightly: DAG, run_dag: Run, tmp_path: Path) -> None:
    finish_day(tmp_path, DAY)
    tried = f"{tmp_path}/$ENTRY_POINT"
    stand_in(nightly, tmp_path, f"[ -e {tried} ] || {{ touch {tried}; exit 1; }}")
    ended = run_dag(nightly)
    assert ended.pop("wait_for_day") == ("success", 1)
    assert set(ended.values()) == {("success", 2)}


SECRETS = {
    "spark.hadoop.fs.s3a.secret.key": "wJalrXUtnFEMI/K7",
    "spark.ssl.keyStorePassword": "pass word=\\\u00e9\U0001f600#!:",
}


def test_the_connection_names_the_master_and_sparks_own_settings_in_a_file_of_the_owner(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Secrets of a Spark connection are only in a temporary file, in no command line, variable or log."""
    spark = {"conn_type": "spark", "host": "spark://10.0.0.1", "port": 7077}
    conf = {"spark.executor.memory": "8g", "spark.app.name": "a night", **SECRETS}
    monkeypatch.setenv("AIRFLOW_CONN_WHAT_IF_SPARK", json.dumps({**spark, "extra": {"conf": conf}}))
    keeps = 'cp -p "$4" "$ARGS.properties"; unset AIRFLOW_CONN_WHAT_IF_SPARK; env > "$ARGS.environment"'
    write_script(environment / "spark-submit", f'printf \'<%s>\' "$@" > "$ARGS"; {keeps}')
    stage().execute({})
    arguments = (tmp_path / "arguments").read_text()
    file = Path(arguments.split("><")[3])
    master = "><--master><spark://10.0.0.1:7077><--load-spark-defaults><"
    assert f"><--properties-file><{file}{master}" in arguments
    assert not file.exists()
    copy = tmp_path / "arguments.properties"
    assert copy.stat().st_mode & 0o777 == 0o600
    assert read_by_java(copy) == conf
    log = capsys.readouterr().out
    assert "spark.executor.memory=8g" in log
    seen = arguments + (tmp_path / "arguments.environment").read_text() + log
    assert not [value for value in SECRETS.values() if value in seen]


def test_settings_of_the_connection_that_are_no_names_and_values_are_wrong(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {"conf": "spark.executor.memory=8g"}
    monkeypatch.setenv("AIRFLOW_CONN_WHAT_IF_SPARK", json.dumps({"conn_type": "spark", "extra": extra}))
    write_script(environment / "spark-submit", "true")
    with pytest.raises(WrongSettings, match=r"^the connection what_if_spark: `conf` in its extra"):
        stage().execute({})


def read_by_java(file: Path) -> dict[str, str]:
    """Return the names and values in a file of Java properties, with escapes read as Java reads them."""
    found = {}
    for line in file.read_text(encoding="ascii").splitlines():
        key, value = (
            re.sub(r"\\u(....)", lambda each: chr(int(each[1], 16)), part) for part in line.split("=")
        )
        found[key] = value.encode("utf-16", "surrogatepass").decode("utf-16")
    return found


def test_the_event_of_an_asset_says_what_was_asked_for_and_what_was_done(environment: Path) -> None:
    done = {"days": ["2026-01-04"], "rows": {"jobs": 2}}
    write_script(environment / "spark-submit", f"echo '{json.dumps(done)}' > $WHAT_IF_SUMMARY")
    events: dict[Asset, SimpleNamespace] = {HISTORY: SimpleNamespace()}
    context: Any = {"outlet_events": events}
    assert stage(arguments="--jobs\ngpt", outlets=[HISTORY]).execute(context) == done
    assert events[HISTORY].extra == {"log_date": "2026-01-05", "asked": "--jobs gpt", **done}
