"""An installed package has the files that its commands need, and errors name missing packages."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.console import main as console
from jobs.runtime.extras import BROUGHT_BY
from tests.installs import BASE, MOST_MB, PROMISES, environment, kept, megabytes, wheel

COMMAND = Path(sys.executable).with_name("straggler")


@pytest.mark.slow
def test_the_base_install_reads_analyses_asks_and_replays(tmp_path: Path) -> None:
    home = environment(tmp_path, wheel(tmp_path), BASE)
    assert sum(megabytes(home).values()) < MOST_MB
    assert kept(home, BASE, tmp_path / "tried") == []


def test_every_extra_is_tried() -> None:
    assert PROMISES.keys() == {BASE, *BROUGHT_BY.values()}


def test_a_missing_package_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    for name in [
        each for each in sys.modules if each.startswith(("mcp.", "jobs.agents", "jobs.serve_agents"))
    ]:
        monkeypatch.delitem(sys.modules, name)  # another test may have imported the module
    assert console(["mcp"]) == 2
    assert capsys.readouterr().err == (
        "straggler: error: mcp is not installed: pip install 'straggler-fleet[agents]'\n"
    )


@pytest.mark.parametrize("name", ["jobs", "schemas"])
@pytest.mark.parametrize("command", [[str(COMMAND), "--help"], [sys.executable, "-c", "import straggler"]])
def test_a_package_of_the_users_own_with_our_name_is_said(
    tmp_path: Path, name: str, command: list[str]
) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").touch()
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode
    assert done.stderr.splitlines()[-1].partition("rror: ")[2] == (
        f"{str(tmp_path / name)!r} hides this project's package {name}: start elsewhere, take its folder out "
        "of PYTHONPATH, or rename it"
    )
