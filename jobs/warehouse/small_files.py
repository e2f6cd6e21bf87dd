"""Small files beside the tables, such as an intent, in a folder or a store."""

import os
from pathlib import Path
from typing import TypeAlias

from jobs.runtime import objects
from jobs.runtime.places import is_url


class LocalFiles:
    """Small files in a local folder."""

    def __init__(self, root: str) -> None:
        self._root = Path(root)

    def read(self, name: str) -> bytes | None:
        """Return the contents of a file; None without one."""
        try:
            return (self._root / name).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """Replace a file atomically, by a rename."""
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f"{path.name}.{os.getpid()}")
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        (self._root / name).unlink(missing_ok=True)


class StoreFiles:
    """Small objects in a store, below a URL."""

    def __init__(self, root: str) -> None:
        self._root = root

    def read(self, name: str) -> bytes | None:
        """Return the contents of an object; None without one."""
        return objects.content(self._root, name)

    def write(self, name: str, content: bytes) -> None:
        """Create or replace an object atomically."""
        objects.write(self._root, name, content)

    def remove(self, name: str) -> None:
        """Remove an object, if it exists."""
        objects.remove(self._root, [name])


SmallFiles: TypeAlias = LocalFiles | StoreFiles
"""Files of a few bytes below one folder, by name; both kinds have the same methods."""


def small_files(root: str) -> SmallFiles:
    """Return the small files of a root, a local folder or a URL."""
    return StoreFiles(root) if is_url(root) else LocalFiles(root)
