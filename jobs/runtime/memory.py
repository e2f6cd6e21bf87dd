"""How much memory this process may use: that of the machine, or of the group that it is in."""

import os
import resource
from contextlib import suppress
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc/self")
_GROUPS: Final = Path("/sys/fs/cgroup")
_FIRST_TO_GO: Final = "500"


def memory_bytes() -> int:
    """Return the memory of the machine, or less where a group of processes has a limit. [B]"""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in _limits():
        with suppress(OSError, ValueError):  # no such group here, or no limit
            found = min(found, int(limit.read_text()))
    return found


def _limits() -> list[Path]:
    """Files with the limits of this process's groups and those above, of both versions of groups."""
    found = []
    with suppress(OSError):
        for line in (_PROC / "cgroup").read_text().splitlines():
            _, controllers, place = line.split(":", 2)
            top = _GROUPS / "memory" if controllers else _GROUPS
            name = "memory.limit_in_bytes" if controllers else "memory.max"
            if controllers in ("", "memory"):
                below = Path(place.strip("/"))
                found += [top / each / name for each in (below, *below.parents)]
    return found


def limit_data(most: int) -> None:
    """Let this process have at most so much writable memory: beyond, an allocation is an error. [B]"""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(
        resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard)
    )


def data_bytes() -> int:
    """Return the writable memory that this process has; 0 where the system does not say. [B]"""
    with suppress(OSError):
        for line in (_PROC / "status").read_text().splitlines():
            if line.startswith("VmData:"):
                return int(line.split()[1]) * 1024
    return 0


def go_first() -> None:
    """Make this process the first that the kernel kills when memory runs out."""
    with suppress(OSError):
        (_PROC / "oom_score_adj").write_text(_FIRST_TO_GO)
