"""The zip of this project's code has the right contents, and changes only if the code changes."""

import re
import zipfile
from pathlib import Path

from jobs.runtime.package import write_zip


def test_the_zip_holds_what_executors_import_and_read_and_changes_with_the_code_alone(tmp_path: Path) -> None:
    first = write_zip(tmp_path / "new" / "project.zip")
    names = set(zipfile.ZipFile(first).namelist())
    for name in (
        *(
            "jobs/runtime/session.py",
            "jobs/transforms/__init__.py",
            "udfs/what_if.py",
            "schemas/vocabulary.py",
        ),
        *("schemas/views/ops.sql", "jobs/gates/quality.html", "conf/base.toml", "conf/cluster.toml"),
        *("jobs/report/page/fleet.html", "jobs/report/page/report.css", "jobs/report/page/charts.js"),
    ):
        assert name in names
    assert [name for name in names if re.match(r"jobs/(synthetic|make_|evaluat)", name)] == []
    assert {name.split("/")[0] for name in names} == {"jobs", "udfs", "schemas", "conf"}
    assert write_zip(tmp_path / "second.zip").read_bytes() == first.read_bytes()
