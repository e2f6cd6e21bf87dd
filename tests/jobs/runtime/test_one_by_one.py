"""If a piece of work ends the process in which it runs, all other pieces are still done."""

import os
from pathlib import Path

import pytest

from jobs.runtime import memory
from jobs.runtime.memory import memory_bytes
from jobs.runtime.one_by_one import Ended, is_again, one_by_one
from tests.support.killers import work

_2_GB = 2_000_000_000


def test_what_ends_a_process_costs_one_piece() -> None:
    pieces = ["kill", "a", "kill", "b", "exit", "fill", "c", "kill"]
    assert list(one_by_one(work, pieces, _2_GB)) == [
        Ended("it ended its process: killed by SIGKILL, with 2.0 GB allowed"),
        "A",
        Ended("it ended its process: killed by SIGKILL, with 2.0 GB allowed"),
        "B",
        Ended("it ended its process: exit status 3, with 2.0 GB allowed"),
        Ended("it took too much memory, with 2.0 GB allowed"),
        "C",
        Ended("it ended its process: killed by SIGKILL, with 2.0 GB allowed"),
    ]


def test_errors_are_those_of_the_work() -> None:
    found = one_by_one(work, ["a", "raise", "b"], _2_GB)
    assert next(found) == "A"
    with pytest.raises(LookupError, match="why"):
        next(found)


def test_outside_of_spark_nothing_is_done_again() -> None:
    assert not is_again()


def test_a_group_of_processes_has_what_the_least_of_its_groups_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    monkeypatch.setattr(memory, "_PROC", tmp_path)
    monkeypatch.setattr(memory, "_GROUPS", tmp_path)
    assert memory_bytes() == machine
    (tmp_path / "cgroup").write_text("4:cpu:/x\n3:memory:/v1\n0::/a/b\n")
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "memory.max").write_text("max\n")
    assert memory_bytes() == machine
    (tmp_path / "a" / "memory.max").write_text("5000\n")
    assert memory_bytes() == 5000
    (tmp_path / "memory" / "v1").mkdir(parents=True)
    (tmp_path / "memory" / "v1" / "memory.limit_in_bytes").write_text("4000\n")
    assert memory_bytes() == 4000
