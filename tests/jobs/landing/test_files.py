"""A landing's entries are classified by place, name and kind: logs of units, and misplaced entries."""

import errno
import os
import shutil
import socket
from datetime import date
from pathlib import Path
from unittest.mock import Mock

import fsspec
import pytest

from jobs.landing.files import Landing, NoLandingError
from jobs.landing.stores import store_of
from jobs.runtime.filesystems import StoreError
from schemas.unit import Unit
from tests.support.night import DAY, EMPTY_DAY, NEXT_DAY
from tests.support.night import Landing as Folders

ODD = ("plain", "a,b", "[x]*y?", "{c,d}", "50%20 off", "back\\slash", "a:b", "köln", "日本")
"""Job ids that a glob, a URL, a comma-separated list or a locale could misread."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    made = Folders(tmp_path_factory.mktemp("landing, of [some] {kind}"))
    for job_id in ODD:
        made.put(job_id, "rank-00000.jsonl", job_id.encode())
        made.put(job_id, "job.json", b"", day=NEXT_DAY)
    (made.root / f"log_date={DAY}" / "_SUCCESS").touch()
    return made


@pytest.mark.parametrize("job_id", ODD)
@pytest.mark.parametrize("scheme", ["", "file://", "local://"])
def test_one_unit_is_found_whatever_its_name(folders: Folders, job_id: str, scheme: str) -> None:
    """A unit with an odd name is found, in a local folder and through fsspec's file systems."""
    unit = Unit(DAY, job_id, "r3")
    root = f"{scheme}{folders.root.as_uri().removeprefix('file://') if scheme == 'file://' else folders.root}"
    landing = Landing(root, [DAY], {unit, Unit(DAY, "absent", "r3")})
    ((file,),) = landing.units.values()
    path = folders.root / file.source_file
    assert (file.unit, file.size) == (unit, len(job_id.encode()))
    assert abs(file.modified_us - path.stat().st_mtime_ns // 1000) <= 1
    with store_of(root).open(file.path) as opened:
        assert opened.read() == job_id.encode()


def test_a_day_is_finished_when_its_marker_exists(folders: Folders) -> None:
    gone = Landing(str(folders.root), [DAY], {Unit(DAY, "absent", "r1")})
    assert (gone.units, gone.misplaced) == ({}, [])
    days = [DAY, NEXT_DAY, EMPTY_DAY]
    assert Landing(str(folders.root), days).finished_days() == {DAY}


def test_there_must_be_a_landing(tmp_path: Path) -> None:
    with pytest.raises(NoLandingError, match=r"the landing .*absent does not exist"):
        Landing(str(tmp_path / "absent"), [DAY])
    assert Landing(str(tmp_path), [DAY]).units == {}


def misplaced_and_units(root: Path, day: date = DAY) -> tuple[set[str], dict[str, dict[str, str]]]:
    landing = Landing(str(root), [day])
    files = {
        f"{unit[1]}/{unit[2]}": {file.name: file.defect for file in some}
        for unit, some in landing.units.items()
    }
    return {name.removeprefix(f"log_date={day}/") for name in landing.misplaced}, files


def test_what_is_no_input_is_misplaced_and_not_silently_gone(tmp_path: Path) -> None:
    made = Folders(tmp_path)
    made.put("a", "rank-0.jsonl", b"")
    made.put("a", "rank-1.jsonl.tmp", b"")
    made.put("a", "rank.jsonl", b"")
    for name in ("rank-2.jsonl.gz", "trace-SE.parquet", "meta-SE.yaml", "job.json"):
        made.put("b", name, b"")
    made.put("a", ".hidden", b"")
    made.put("only notes", "notes.txt", b"")
    made.put("a", "log_date=2026-01-04/job_id=b/run_id=r/rank-0.jsonl", b"")
    day = tmp_path / f"log_date={DAY}"
    (day / "_SUCCESS").touch()
    (day / "README").touch()
    (day / "job_id=a" / "notes").touch()
    (day / "job=x" / "run_id=r").mkdir(parents=True)
    (day / "job=x" / "run_id=r" / "rank-0.jsonl").touch()
    (tmp_path / "log_date=soon").mkdir()
    misplaced, units = misplaced_and_units(tmp_path)
    named = dict.fromkeys(("job.json", "meta-SE.yaml", "rank-2.jsonl.gz", "trace-SE.parquet"), "")
    assert units == {"a/r3": {"rank-0.jsonl": ""}, "b/r3": named, "only notes/r3": {}}
    assert misplaced == {
        "README",
        "job=x/run_id=r/rank-0.jsonl",
        "job_id=a/notes",
        "job_id=a/run_id=r3/.hidden",
        "job_id=a/run_id=r3/log_date=2026-01-04 (not a file but a folder)",
        "job_id=a/run_id=r3/log_date=2026-01-04/job_id=b/run_id=r/rank-0.jsonl",
        "job_id=a/run_id=r3/rank-1.jsonl.tmp",
        "job_id=a/run_id=r3/rank.jsonl",
        "job_id=only notes/run_id=r3/notes.txt",
    }


def test_dumps_and_execution_traces_are_looked_at(tmp_path: Path) -> None:
    """Memory dumps and execution traces are listed as logs, so that the refusal can name their format."""
    made = Folders(tmp_path)
    for name in (
        "_dump_0",
        "nccl_dump_1",
        "nccl_trace_rank_2",
        "chakra.3.et",
        "log-7.out",
        "_dump_x",
        "_a.json",
    ):
        made.put("a", name, b"")
    misplaced, units = misplaced_and_units(tmp_path)
    assert set(units["a/r3"]) == {"_dump_0", "nccl_dump_1", "nccl_trace_rank_2", "chakra.3.et", "log-7.out"}
    assert misplaced == {"job_id=a/run_id=r3/_dump_x", "job_id=a/run_id=r3/_a.json"}


def test_names_of_logs_that_are_no_files_say_what_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Folders(tmp_path / "landing")
    made.put("a", "rank-0.jsonl", b"x")
    run = made.root / f"log_date={DAY}" / "job_id=a" / "run_id=r3"
    os.mkfifo(run / "rank-1.jsonl")
    (run / "rank-2.jsonl").mkdir()
    (run / "rank-3.jsonl").symlink_to("/etc/passwd")
    (run / "rank-4.jsonl").symlink_to("rank-4.jsonl")
    (run / "rank-5.jsonl").symlink_to("rank-0.jsonl")
    (run / "rank-6.jsonl").symlink_to("gone")
    monkeypatch.chdir(run)  # a socket's path has a maximal length
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("rank-7.jsonl")
    _, units = misplaced_and_units(made.root)
    assert units["a/r3"] == {
        "rank-0.jsonl": "",
        "rank-1.jsonl": "not a file but a FIFO",
        "rank-2.jsonl": "not a file but a folder",
        "rank-3.jsonl": "a link out of the landing",
        "rank-4.jsonl": "a link that leads nowhere",
        "rank-5.jsonl": "",
        "rank-6.jsonl": "a link that leads nowhere",
        "rank-7.jsonl": "not a file but a socket",
    }


def test_links_between_folders_are_followed_within_the_landing_alone(tmp_path: Path) -> None:
    made = Folders(tmp_path / "landing")
    made.put("a", "rank-0.jsonl", b"x")
    day = made.root / f"log_date={DAY}"
    (day / "job_id=b").symlink_to("job_id=a")
    (day / "job_id=loop").symlink_to(".")
    (day / "job_id=out").symlink_to(tmp_path)
    misplaced, units = misplaced_and_units(made.root)
    assert units == {"a/r3": {"rank-0.jsonl": ""}, "b/r3": {"rank-0.jsonl": ""}}
    assert misplaced == {
        "job_id=loop (a link to a folder above itself)",
        "job_id=out (a link out of the landing)",
    }


def test_folders_that_are_no_days_are_named(tmp_path: Path) -> None:
    (tmp_path / f"log_date={DAY}").mkdir()
    landing = Landing(str(tmp_path), [DAY])
    assert landing.misnamed_text() == ""
    for name in ("log_date=2026-1-05", "log_date=20260105", "log_date=2026-02-30", "notes"):
        (tmp_path / name).mkdir()
    said = landing.misnamed_text().partition(": ")[2]
    assert said == "log_date=2026-02-30, log_date=2026-1-05, log_date=20260105"


def test_links_to_one_folder_do_not_multiply(tmp_path: Path) -> None:
    """Of links to one folder, only the first is followed; a link to a folder above it is not followed."""
    made = Folders(tmp_path)
    day = made.root / f"log_date={DAY}"
    for number in range(40):
        made.put("b", f"rank-{number}.jsonl", b"x")
        (made.root / "inner").mkdir(exist_ok=True)
        (made.root / "inner" / f"run_id={number}").symlink_to(day / "job_id=b" / "run_id=r3")
        (day / f"job_id=l{number}").symlink_to(made.root / "inner")
    for number in range(150):
        (day / f"l{number}").symlink_to(".")
    landing = Landing(str(made.root), [DAY])
    assert {unit.job_id: len(files) for unit, files in landing.units.items()} == {"b": 40, "l0": 40}
    assert landing.misplaced_count == 39 + 39 + 150
    assert len(landing.misplaced) == 100
    assert landing.misplaced_text().startswith("228 files are misplaced and not read: log_date=")
    assert landing.misplaced_text().count("log_date=") == 100


def test_names_need_not_be_text(tmp_path: Path) -> None:
    names = [b"rank-\xfe.jsonl", b"rank-\\xfe.jsonl"]
    run = tmp_path / "log_date=2026-01-05" / os.fsdecode(b"job_id=a\xff") / "run_id=r3"
    run.mkdir(parents=True)
    for name in names:
        (run / os.fsdecode(name)).write_bytes(name)
    landing = Landing(str(tmp_path), [DAY])
    ((unit, (file,)),) = landing.units.items()
    assert (unit[1], file.name) == ("a\\xff", "rank-\\xfe.jsonl")
    assert len(landing.misplaced) == 1, "of two names that are equal as text, one is misplaced"
    with store_of(str(tmp_path)).open(file.path) as opened:
        assert opened.read() in names


def test_what_has_become_something_else_since_it_was_listed_is_an_error(tmp_path: Path) -> None:
    path, store = tmp_path / "rank-0.jsonl", store_of(str(tmp_path))
    os.mkfifo(path)
    with pytest.raises(OSError, match="not a file any more"):
        store.open(str(path))
    path.unlink()
    path.symlink_to("/etc/passwd")
    with pytest.raises(OSError, match="symbolic links"):
        store.open(str(path))


@pytest.mark.parametrize("swapped", ["job_id=a", "job_id=a/run_id=r3"])
def test_a_folder_that_has_become_a_link_since_it_was_listed_is_not_followed(
    tmp_path: Path, swapped: str
) -> None:
    made, outside = Folders(tmp_path / "landing"), Folders(tmp_path / "outside")
    made.put("a", "rank-0.jsonl", b"own")
    outside.put("a", "rank-0.jsonl", b"another's")
    ((file,),) = Landing(str(made.root), [DAY]).units.values()
    folder = made.root / f"log_date={DAY}" / swapped
    folder.rename(tmp_path / "moved")
    folder.symlink_to(outside.root / f"log_date={DAY}" / swapped)
    with pytest.raises(OSError, match=f"{folder.name}.* is no longer a folder"):
        store_of(str(made.root)).open(file.path)


def test_who_wrote_a_file_and_how_many_names_it_has_are_recorded(tmp_path: Path) -> None:
    made = Folders(tmp_path / "landing")
    for rank in (0, 1):
        made.put("a", f"rank-{rank}.jsonl", b"x")
    os.link(made.root / f"log_date={DAY}/job_id=a/run_id=r3/rank-1.jsonl", tmp_path / "backup")
    ((first, second),) = Landing(str(made.root), [DAY]).units.values()
    assert (first.owner, second.owner) == (os.getuid(), os.getuid())
    assert (first.hard_links, second.hard_links) == (1, 2)


def test_a_folder_that_may_be_listed_and_not_entered_costs_its_unit_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a unit's folder can be listed but not entered, as after chmod -R 644, other units are still read."""
    made = Folders(tmp_path)
    for job_id in ("a", "b"):
        made.put(job_id, "rank-0.jsonl", b"x")
        made.put(job_id, "job.json", b"{}")
    look = os.lstat

    def refused(path: bytes) -> os.stat_result:
        if b"job_id=a/run_id=r3/" in path:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return look(path)

    monkeypatch.setattr(os, "lstat", refused)
    _, units = misplaced_and_units(tmp_path)
    said = "it cannot be reached: Permission denied"
    assert units == {
        "a/r3": {"job.json": said, "rank-0.jsonl": said},
        "b/r3": {"job.json": "", "rank-0.jsonl": ""},
    }


def test_folders_that_go_while_they_are_listed_are_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Folders(tmp_path)
    made.put("a", "rank-0.jsonl", b"x")
    made.put("b", "rank-0.jsonl", b"x")
    scan = os.scandir

    def scan_and_remove(folder: bytes) -> object:
        monkeypatch.setattr(os, "scandir", scan)
        shutil.rmtree(tmp_path / f"log_date={DAY}" / "job_id=b", ignore_errors=True)
        return scan(folder)

    monkeypatch.setattr(os, "scandir", scan_and_remove)
    assert misplaced_and_units(tmp_path) == (set(), {"a/r3": {"rank-0.jsonl": ""}})


def test_any_store_of_fsspec_will_do() -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe(f"/fleet/log_date={DAY}/job_id=a/run_id=r3/rank-0.jsonl", b"abc")
    memory.pipe(f"/fleet/log_date={DAY}/_SUCCESS", b"")
    landing = Landing("memory://fleet", [DAY])
    ((file,),) = landing.units.values()
    assert (file.source_file, file.size) == (f"log_date={DAY}/job_id=a/run_id=r3/rank-0.jsonl", 3)
    assert landing.finished_days() == {DAY}
    with store_of("memory://fleet").open(file.path) as opened:
        assert opened.read() == b"abc"
    with pytest.raises(NoLandingError):
        Landing("memory://elsewhere", [DAY])


def test_a_store_that_does_not_answer_is_no_empty_one_and_is_named_by_its_url(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A store that does not answer raises an error of one line with its URL, and is not taken as empty."""
    fsspec.filesystem("memory").pipe("/silent/day/a.jsonl", b"abc")
    store = store_of("memory://silent")
    error = ConnectionError("\x1b[31mHTTP error\x1b[0m\n  \x1b[2m↳\x1b[0m refused")
    memory = "fsspec.implementations.memory.MemoryFileSystem"
    monkeypatch.setattr(f"{memory}.info", Mock(side_effect=error))
    monkeypatch.setattr(
        f"{memory}.isfile", fsspec.AbstractFileSystem.isfile
    )  # the general method, which calls info
    for asked in (
        lambda: store.folders("day"),
        lambda: [*store.walk("day")],
        lambda: store.exists("day/a.jsonl"),
        lambda: store.open("/silent/day/a.jsonl"),
    ):
        with pytest.raises(StoreError, match=r"^memory://silent/day.* its store: HTTP error refused; run"):
            asked()
