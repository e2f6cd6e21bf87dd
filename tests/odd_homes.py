"""Run a night of a small fleet in unusual environments, and compare its answers with a usual night's.

`python -m tests.odd_homes` tests the following environments:

- a user other than root;
- a read-only home folder;
- a soft limit of 256 file descriptors, which a night raises;
- a hard limit of 256, with which a night prints one line of error, while questions are still answered;
- 4 GB of memory;
- other versions of Python, from PATH and from `--python`.

Another user, and another Python, work in a clone of the last commit with its own `make setup`; `--folder`
keeps the clones. Environments that this machine cannot provide are listed. The exit status is 1 if an answer
differs or a command fails.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from jobs.runtime.project import PROJECT
from tests.support.commands import INHERITED, SHORT_LIVED

_DAY: Final = "2026-01-05"
_ANSWER: Final = (
    "SELECT job_id, status, slowdown, job_causes.* FROM job_slowdown "
    "LEFT JOIN job_causes USING (log_date, job_id, run_id) ORDER BY ALL"
)
_GROUPS: Final = Path("/sys/fs/cgroup")
_LIMIT: Final = 4 * 2**30
_NOBODY: Final = 65534
_AS_NOBODY: Final = ("setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups")
_PYTHONS: Final = ("python3.11", "python3.12", "python3.13", "/usr/bin/python3")
_SUITABLE: Final = ("3.11", "3.12", "3.13")
_VERSION: Final = "import sys, venv; print(*sys.version_info[:2], sep='.')"
_READ_ONLY: Final = (
    'mount --bind "$HOME" "$HOME" && mount -o remount,ro,bind "$HOME" && ! touch "$HOME/x" 2>&- && exec "$@"'
)


@dataclass(frozen=True)
class Place:
    """An environment for a night: a prefix of each command line, exported variables, and a checkout.

    lacks : why this machine cannot provide the environment; empty if it can
    home, python, owner : folder of the checkout; of a clone also its Python and its user id
    refusal : part of the error if a night cannot run in this environment; empty if it can
    group : control group that limits the memory of processes
    """

    name: str
    before: tuple[str, ...] = ()
    exported: Mapping[str, str] = field(default_factory=dict)
    lacks: str = ""
    home: Path = PROJECT
    python: str = ""
    owner: int | None = None
    refusal: str = ""
    group: Path | None = None

    def run(self, *command: object) -> "subprocess.CompletedProcess[str]":
        """Run a command in this environment to its end, and return its output."""
        inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
        return subprocess.run(
            [*self.before, *map(str, command)],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.home if self.home.exists() else PROJECT,
            env={**inherited, "SPARK_SUBMIT_OPTS": SHORT_LIVED, **self.exported},
        )

    def straggler(self, *arguments: object) -> str:
        """Run `straggler` in this environment and return its output; raises OSError if it fails."""
        done = self.run(self.home / ".venv" / "bin" / "straggler", *arguments)
        if done.returncode:
            raise OSError(f"{arguments[0]} ended with {done.returncode}: {_last(done.stderr)}")
        return done.stdout


def _last(text: str) -> str:
    return next(iter(text.strip().splitlines()[-1:]), "")


def _shell(script: str) -> tuple[str, ...]:
    return "sh", "-c", f'{script} && exec "$@"', "sh"


def _clone(place: Place) -> None:
    """Clone this checkout and run `make setup` in the clone, unless it exists; raises OSError on failure."""
    if not place.home.exists():
        subprocess.run([shutil.which("git") or "git", "clone", "--quiet", PROJECT, place.home], check=True)
        if place.owner is not None:
            for each in (place.home, *place.home.rglob("*")):
                os.chown(each, place.owner, place.owner, follow_symlinks=False)
    done = place.run("make", "setup", f"PYTHON={place.python}")
    if done.returncode:
        raise OSError(f"make setup: {_last(done.stderr)}")


def _versions(pythons: Sequence[str]) -> dict[str, str]:
    """Return the versions of those Python programs that are installed, by program."""
    tried = {each: Place("").run("env", each, "-c", _VERSION) for each in pythons}
    return {each: done.stdout.strip() for each, done in tried.items() if not done.returncode}


def _group() -> Path | None:
    """Create a control group with 4 GB of memory; None if this user may not create one."""
    for top, name in ((_GROUPS / "memory", "memory.limit_in_bytes"), (_GROUPS, "memory.max")):
        group = top / f"odd-home-{os.getpid()}"
        try:
            group.mkdir()
            (group / name).write_text(str(_LIMIT))
        except OSError:
            continue
        return group
    return None


def _peak(group: Path) -> str:
    peaks = [group / name for name in ("memory.max_usage_in_bytes", "memory.peak")]
    most = max(int(each.read_text()) for each in peaks if each.exists())
    return f", peak {most / 1e9:.2f} GB with the cache of its files"


def _of_this_checkout(folder: Path) -> Iterator[Place]:
    home = folder / "read-only"
    home.mkdir(exist_ok=True)
    place = Place("a read-only home", ("unshare", "--mount", *_shell(_READ_ONLY)), {"HOME": str(home)})
    has_mounts = shutil.which("unshare") is not None and not place.run("true").returncode
    lacks = "" if has_mounts else "not to be had: no mounts for this user"
    yield Place(place.name, place.before, place.exported, lacks)
    yield Place("256 descriptors", _shell("ulimit -Sn 256"))
    yield Place("256 descriptors at most", _shell("ulimit -n 256"), refusal="raise the hard limit")
    group = _group()
    lacks = "" if group else "not to be had: no group of processes for this user"
    yield Place("4 GB", _shell(f"echo $$ > {group}/cgroup.procs"), lacks=lacks, group=group)


def _of_clones(folder: Path, pythons: Mapping[str, str]) -> Iterator[Place]:
    """Yield environments that need a clone: another user, and other versions of Python.

    pythons : versions of the available Python programs, by path
    """
    home = folder / "another-user"
    can_be = os.geteuid() == 0 and shutil.which("setpriv")
    suitable = [each for each, version in pythons.items() if version in _SUITABLE]
    runs = [each for each in suitable if can_be and not Place("", _AS_NOBODY).run(each, "-V").returncode]
    lacks = "" if runs else "not to be had: needs root, setpriv, and a Python that any user can start"
    python = next(iter(runs), "")
    yield Place("another user", _AS_NOBODY, {"HOME": str(home)}, lacks, home, python, _NOBODY)
    for wanted in _SUITABLE:
        found = [path for path, version in pythons.items() if version == wanted]
        if wanted != f"{sys.version_info.major}.{sys.version_info.minor}":
            lacks, python = "" if found else "not to be had: name it by --python", next(iter(found), "")
            yield Place(f"Python {wanted}", (), {}, lacks, folder / f"python-{wanted}", python)


def _answers(place: Place, landing: Path, folder: Path, warehouse: Path) -> str:
    """Run a night, query its results, and analyse one run; return the text of all answers.

    warehouse : warehouse to query if a night cannot run in this environment
    """
    night = ("night", "--landing", landing, "--warehouse", folder / "warehouse", "--log-date", _DAY)
    if not place.refusal:
        place.straggler(*night)
        warehouse = folder / "warehouse"
    else:
        done = place.run(place.home / ".venv" / "bin" / "straggler", *night)
        if not done.returncode or place.refusal not in done.stderr or done.stderr.count("\n") > 1:
            raise OSError(f"a night ended with {done.returncode}: {done.stderr}")
    asked = place.straggler("query", "--warehouse", warehouse, "--format", "csv", _ANSWER)
    run = min((landing / f"log_date={_DAY}").glob("*/*"))
    analysed = place.straggler("analyse", run, "--page", folder / "page.html")
    return asked + analysed.replace(str(folder), "")


def _tried(place: Place, landing: Path, work: Path, wanted: str) -> str:
    """Compare the answers of one environment with `wanted`; raises OSError if they differ."""
    if place.python:
        _clone(place)
    folder = work / place.name.replace(" ", "-")
    folder.mkdir()
    folder.chmod(0o777)  # the other user writes there
    if _answers(place, landing, folder, work / "here" / "warehouse") != wanted:
        raise OSError("its answers differ from those of the usual environment")
    return f"the answers of here{_peak(place.group) if place.group else ''}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the night in every environment, and print the results; return the exit status."""
    parser = argparse.ArgumentParser(prog="odd_homes", description=__doc__)
    parser.add_argument("--python", action="append", default=[], help="another Python; may be repeated")
    parser.add_argument(
        "--folder", type=Path, help="folder in which clones are kept; by default a temporary one"
    )
    parser.add_argument("--only", default="", help="only environments whose names contain this text")
    args = parser.parse_args(argv)
    pythons = _versions((*args.python, *_PYTHONS))
    failures = 0
    with tempfile.TemporaryDirectory(prefix="odd-homes-") as temporary:
        work = Path(temporary)
        work.chmod(0o755)
        kept: Path = args.folder or work / "clones"
        kept.mkdir(exist_ok=True, parents=True)
        landing, here = work / "landing", Place("here")
        here.straggler("fleet", "--landing", landing, "--jobs", 2, "--days", 1, "--most-ops", 4000)
        (work / "here").mkdir()
        wanted = _answers(here, landing, work / "here", work)
        places = [*_of_this_checkout(kept), *_of_clones(kept.resolve(), pythons)]
        for place in (each for each in places if args.only in each.name):
            begun = time.monotonic()
            try:
                said = place.lacks or _tried(place, landing, work, wanted)
            except OSError as error:
                said, failures = f"FAILED: {error}", failures + 1
            sys.stdout.write(f"{place.name}: {said} ({time.monotonic() - begun:.0f} s)\n")
            sys.stdout.flush()
    for group in filter(None, (place.group for place in places)):
        group.rmdir()
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
