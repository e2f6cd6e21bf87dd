"""Files of tables in object stores, as deltalake opens them, for DuckDB's own reader of Parquet.

DuckDB would need an extension for each store, and their secrets. deltalake reaches them anyway.
"""

from datetime import datetime
from typing import Any, Final, cast

from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from fsspec import AbstractFileSystem
from pyarrow.fs import FileSystemHandler

PROTOCOL: Final = "delta"


class StoreFiles(AbstractFileSystem):  # type: ignore[misc]  # fsspec ships no types
    """Files of the tables that were added, by `delta://` and the table's URL; nothing else."""

    protocol = PROTOCOL
    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self._handlers: dict[str, FileSystemHandler] = {}

    def add(self, url: str, table: DeltaTable) -> str:
        """Add a table; returns what the names of its files begin with."""
        self._handlers[url] = DeltaStorageHandler.from_table(table._table)  # noqa: SLF001  # as deltalake's own readers
        return f"{PROTOCOL}://{url}"

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path.removeprefix(f"{PROTOCOL}://")

    def info(self, path: str, **_how: object) -> dict[str, Any]:
        """Name and size of a file."""
        handler, name = self._place(path)
        (found,) = handler.get_file_info([name])
        return {"name": path, "size": found.size, "type": "file"}

    def modified(self, path: str) -> datetime:
        """Time of a file's last change."""
        handler, name = self._place(path)
        (found,) = handler.get_file_info([name])
        return cast("datetime", found.mtime)

    def _open(self, path: str, *_mode: object, **_how: object) -> Any:  # noqa: ANN401  # a file of pyarrow's
        handler, name = self._place(path)
        return handler.open_input_file(name)

    def _place(self, path: str) -> tuple[FileSystemHandler, str]:
        """Table that a file belongs to, and the file's path below it."""
        path = self._strip_protocol(path)
        for url, handler in self._handlers.items():
            if path.startswith(f"{url}/"):
                return handler, path.removeprefix(f"{url}/")
        raise FileNotFoundError(path)
