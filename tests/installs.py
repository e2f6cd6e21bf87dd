"""Install the wheel into fresh environments, alone and with each extra, and run the extra's commands.

`python -m tests.installs` tests the base install and all extras, `python -m tests.installs base spark` only
these two; `make test-all` tests only base.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from jobs.runtime.extras import BROUGHT_BY
from jobs.runtime.project import PROJECT
from tests.jobs.reading.warehouses import replicated, warehouse_of
from tests.support.commands import start

BASE: Final = "base"
MOST_MB: Final = 600
"""Largest size of the base install, including byte code. [MB]"""
UV: Final = (sys.executable, "-m", "uv")
_CONF: Final = PROJECT / "conf"
_TRACE: Final = str(PROJECT / "tests" / "data" / "traces" / "ST")
_FORWARD: Final = "op_type = 'forward-compute'"


class Try(NamedTuple):
    """A command line to run in an environment, a part of its required output, and its exit status."""

    command: Sequence[str]
    says: str
    status: int = 0


def _python(program: str, says: str, status: int = 0) -> Try:
    return Try(("python", "-c", program), says, status)


def _asks_for(extra: str, *command: str) -> Try:
    return Try(("straggler", *command), f"pip install 'straggler-fleet[{extra}]'", 2)


_SAVED: Final = f"import straggler; print(straggler.analyse({_TRACE!r}).figures.workers.save('workers.png'))"
_PERFETTO: Final = "from pathlib import Path; from jobs.runtime.perfetto import server"
_NIGHT: Final = (
    Try(("straggler", "fleet", "--landing", "landing", "--jobs", "1", "--days", "1", "--seed", "1"), ""),
    Try(
        ("straggler", "night", "--landing", "landing", "--warehouse", "nights", "--log-date", "2026-01-05"),
        "report:",
    ),
)
PROMISES: Final[dict[str, tuple[Try, ...]]] = {
    BASE: (
        Try(("straggler", "--help"), "Ask the warehouse:"),
        Try(("straggler", "analyse", _TRACE, "--page", "page.html"), "stage_imbalance"),
        Try(("straggler", "query", "SELECT job_id FROM jobs"), "llm-a"),
        Try(("straggler", "what-if", "--job-id", "llm-a", "--fix", _FORWARD), "time_saved_fraction"),
        Try(("straggler", "diff", _TRACE, _TRACE), "no difference"),
        _python("import straggler as s; print(s.open().table('jobs')._repr_html_())", "<pre>"),
        _python(_SAVED, "pip install 'straggler-fleet[draw]'", 1),
        _asks_for("draw", "timeline", "--job-id", "llm-a", "--open"),
        _asks_for("agents", "mcp"),
        _asks_for("stores", "query", "--warehouse", "s3://bucket/none", "SELECT 1 FROM jobs"),
        _asks_for("spark", "night", "--log-date", "2026-01-05"),
        _asks_for("spark", "query", "--engine", "spark", "SELECT 1"),
    ),
    "draw": (
        _python(_SAVED, "workers.png"),
        _python(f"{_PERFETTO}; print(server(Path('trace')).server_name)", ""),
    ),
    "stores": (_python("import jobs.runtime.objects as o; print(o.store_at('file:///tmp'))", "Store"),),
    "agents": (_python("from jobs.serve_agents import main; main(['--help'])", "--port"),),
    "spark": _NIGHT,
    "gates": (*_NIGHT, _python("import jobs.gates.suite_runner; print('gates')", "gates")),
    "airflow": (_python("from airflow.sdk import DAG; print('a DAG')", "a DAG"),),
}  # fmt: skip


def wheel(folder: Path) -> Path:
    """Build the wheel from a copy of this checkout, because setuptools leaves folders among the sources."""
    source = folder / "source"
    left_out = shutil.ignore_patterns(".*", "dist", "build", "demo", "tests", "*.egg-info", "__pycache__")
    shutil.copytree(PROJECT, source, ignore=left_out)
    built = (*UV, "build", "--quiet", "--wheel", "--build-constraints", str(_CONF / "build.lock"))
    subprocess.run([*built, "--out-dir", str(folder), str(source)], check=True)
    (made,) = folder.glob("*.whl")
    return made


def environment(folder: Path, made: Path, extra: str) -> Path:
    """Install the wheel with an extra at the locked versions; return the environment's folder."""
    home = folder / extra
    asked = str(made) if extra == BASE else f"{made}[{extra}]"
    subprocess.run([*UV, "venv", "--quiet", "--python", sys.executable, str(home)], check=True)
    install = (
        *UV,
        "pip",
        "install",
        "--quiet",
        "--compile-bytecode",
        "--python",
        str(home / "bin" / "python"),
    )
    subprocess.run([*install, "--constraints", str(_CONF / "requirements.lock"), asked], check=True)
    return home


def megabytes(home: Path) -> dict[str, float]:
    """Return the size of each top-level folder of an environment's packages, largest first. [MB]"""
    (packages,) = home.glob("lib/python*/site-packages")
    sizes = {
        each.name: sum(file.lstat().st_size for file in [each, *each.rglob("*")]) / 1e6
        for each in packages.iterdir()
    }
    return dict(sorted(sizes.items(), key=lambda item: -item[1]))


def kept(home: Path, extra: str, folder: Path) -> list[str]:
    """Run the commands that an extra is for; return one line per failure."""
    folder.mkdir()
    warehouse = warehouse_of(folder / "warehouse", **replicated()).root
    there = {"STRAGGLER_WAREHOUSE": warehouse, "XDG_CACHE_HOME": str(folder / "cache")}
    found = []
    for command, says, status in PROMISES[extra]:
        done = start([str(home / "bin" / command[0]), *command[1:]], folder, there)
        printed = done.stdout + done.stderr
        if done.returncode != status or says not in printed:
            found.append(f"{extra}: {' '.join(command)}: status {done.returncode}: {printed[-500:]}")
        if status == 2 and len(done.stderr.splitlines()) > 3:  # two lines come before a timeline's error
            found.append(f"{extra}: {' '.join(command)}: more than a line: {done.stderr[:500]}")
    return found


def main(extras: Sequence[str]) -> int:
    """Install and test the named extras, or all of them; return the exit status."""
    with tempfile.TemporaryDirectory(prefix="straggler-installs-") as made:
        folder = Path(made)
        built = wheel(folder)
        failed: list[str] = []
        for extra in extras or (BASE, *dict.fromkeys(BROUGHT_BY.values())):
            home = environment(folder, built, extra)
            sizes = megabytes(home)
            largest = ", ".join(f"{name} {size:.0f}" for name, size in [*sizes.items()][:8])
            sys.stdout.write(f"{extra}: {sum(sizes.values()):.0f} MB: {largest}\n")
            failed += kept(home, extra, folder / f"try-{extra}")
        sys.stdout.writelines(f"{line}\n" for line in failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
