"""Memory available to this process: the machine's, or its control group's limit."""

import os
import resource
from contextlib import suppress
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc/self")
_GROUPS: Final = Path("/sys/fs/cgroup")


def memory_bytes() -> int:
    """Return the memory of the machine, or a lower limit of a control group. [B]"""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in _limits():
        with suppress(OSError, ValueError):  # no such group here, or no limit
            found = min(found, int(limit.read_text()))
    return found


def _limits() -> list[Path]:
    """Return files with the memory limits of this process's control groups (v1 and v2) and their parents."""
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
    """Limit this process's writable memory to `most` bytes; allocations beyond the limit fail."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(
        resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard)
    )


def data_bytes() -> int:
    """Return the writable memory of this process; 0 if unknown. [B]"""
    with suppress(OSError):
        for line in (_PROC / "status").read_text().splitlines():
            if line.startswith("VmData:"):
                return int(line.split()[1]) * 1024
    return 0


def go_first() -> None:
    """Make the kernel kill this process before others when memory runs out."""
    with suppress(OSError):
        (_PROC / "oom_score_adj").write_text("500")  # of -1000 to 1000
