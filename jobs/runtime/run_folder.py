"""One temporary folder for each process that runs Spark: all that it and its JVM leave goes with it.

The folder of a process that was killed is removed by the next one that starts. Its name says which process it
was, so that no folder of a living one is ever taken for left behind.
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
"""Containers that share a folder have processes of the same numbers, and names of their own."""
_NAME: Final = re.compile(re.escape(_PREFIX) + r"(?P<process>\d+)-(?P<started>\d+)")
_SAME_START_S: Final = 2
"""A process's start moves by so much when the clock is set."""


def run_folder() -> Path:
    """Return the temporary folder of this process, which goes when it ends; made at the first call."""
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
    """Remove folders of our naming that belong to this user and to no living process of this machine."""
    for folder in Path(gettempdir()).glob(f"{_PREFIX}*"):
        named = _NAME.fullmatch(folder.name)
        if named and _is_own(folder) and not _is_alive(int(named["process"]), int(named["started"])):
            shutil.rmtree(folder, ignore_errors=True)


def _is_own(folder: Path) -> bool:
    """Whether this is a folder of this user's: what others make in /tmp by our names is left alone."""
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
