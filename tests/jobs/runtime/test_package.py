"""The project's zip: what it holds, and that it only changes when the code does."""

import re
import zipfile
from pathlib import Path

from jobs.runtime.package import write_zip


def test_the_zip_holds_what_executors_import_and_read(tmp_path: Path) -> None:
    names = set(zipfile.ZipFile(write_zip(tmp_path / "new" / "project.zip")).namelist())
    assert {
        "jobs/runtime/session.py",
        "udfs/what_if.py",
        "schemas/vocabulary.py",
        "schemas/views/ops.sql",
    } <= names
    assert {
        "jobs/report/page/fleet.html",
        "jobs/report/page/report.css",
        "jobs/report/page/charts.js",
    } <= names
    assert "jobs/gates/quality.html" in names
    assert {"conf/base.toml", "conf/local.toml", "conf/cluster.toml", "jobs/transforms/__init__.py"} <= names
    assert [name for name in names if re.match(r"jobs/(synthetic|make_|evaluat)", name)] == []
    assert {name.split("/")[0] for name in names} == {"jobs", "udfs", "schemas", "conf"}


def test_the_same_code_gives_the_same_bytes(tmp_path: Path) -> None:
    first = write_zip(tmp_path / "first.zip").read_bytes()
    assert write_zip(tmp_path / "second.zip").read_bytes() == first
