"""Small files beside the tables in a folder or a store, such as the record of an unfinished publication."""

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from jobs.runtime.places import is_url


class SmallFiles:
    """Small files below one root, a local folder or the URL of a store, accessed by name."""

    def __init__(self, root: str) -> None:
        self._root, self._folder = root, Path(root)
        # Imported only for a store, because small installs lack its dependencies.
        self._objects: Any = import_module("jobs.runtime.objects") if is_url(root) else None

    def read(self, name: str) -> bytes | None:
        """Return the contents of a file; None if there is no file."""
        if self._objects is not None:
            content: bytes | None = self._objects.content(self._root, name)
            return content
        try:
            return (self._folder / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, name: str, content: bytes) -> None:
        """Write a file so that readers see either its old or its new content."""
        if self._objects is not None:
            self._objects.write(self._root, name, content)
            return
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f"{path.name}.{os.getpid()}")
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)

    def remove(self, *names: str) -> None:
        """Remove files, and ignore files that do not exist."""
        if self._objects is not None:
            self._objects.remove(self._root, names)
            return
        for name in names:
            (self._folder / name).unlink(missing_ok=True)
