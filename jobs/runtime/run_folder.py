"""One temporary folder per process that runs Spark, removed when the process ends.

If a process was killed, the next process that starts removes its folder. A folder's name has the number and
start time of its process, so that the folder of a running process is never removed.
"""

import atexit
import os
import re
import shutil
import socket
from functools import cache
from pathlib import Path
from tempfile import gettempdir
from typing import Final

import psutil

_PREFIX: Final = f"straggler-fleet-{socket.gethostname()}-"
"""Includes the host's name, because containers that share a folder may have the same process numbers."""
_NAME: Final = re.compile(re.escape(_PREFIX) + r"(?P<process>\d+)-(?P<started>\d+)")
_SAME_START_S: Final = 2
"""Tolerance for the start time of a process, which shifts if the clock is set. [s]"""


def run_folder() -> Path:
    """Return this process's temporary folder, created on first use and removed at exit."""
    return _folder_of(os.getpid())


@cache
def _folder_of(process: int) -> Path:
    remove_left_behind()
    started = round(psutil.Process(process).create_time())
    folder = Path(gettempdir()) / f"{_PREFIX}{process}-{started}"
    folder.mkdir(mode=0o700, exist_ok=True)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def remove_left_behind() -> None:
    """Remove this user's temporary folders whose processes have ended on this machine."""
    for folder in Path(gettempdir()).glob(f"{_PREFIX}*"):
        named = _NAME.fullmatch(folder.name)
        if named and _is_own(folder) and not _is_alive(int(named["process"]), int(named["started"])):
            shutil.rmtree(folder, ignore_errors=True)


def _is_own(folder: Path) -> bool:
    """Return whether this user owns the folder; other users' folders of the same names are left alone."""
    try:
        return folder.is_dir() and not folder.is_symlink() and folder.lstat().st_uid == os.getuid()
    except FileNotFoundError:  # another process was faster
        return False


def _is_alive(process: int, started: int) -> bool:
    try:
        began_s: float = psutil.Process(process).create_time()
    except psutil.NoSuchProcess:
        return False
    return abs(began_s - started) <= _SAME_START_S
