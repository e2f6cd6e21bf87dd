"""Small files beside the tables, such as a lock: on this machine by Python, elsewhere by Hadoop."""

import os
from pathlib import Path
from typing import Any, Final, TypeAlias

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

_CONDITIONAL: Final = "fs.option.create.conditional.overwrite"
"""Makes S3 refuse the second of two writers; other stores do so by default."""


class LocalFiles:
    """Files below a folder of this machine."""

    def __init__(self, root: str) -> None:
        self._root = Path(root)

    def read(self, name: str) -> bytes | None:
        """Return the contents of a file; None without one."""
        try:
            return (self._root / name).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """Replace a file by a rename, so that a reader finds it whole."""
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f"{path.name}.{os.getpid()}")
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)

    def create(self, name: str, content: bytes) -> bool:
        """Make a file, unless it exists; returns whether it was made."""
        self._root.mkdir(parents=True, exist_ok=True)
        try:
            with (self._root / name).open("xb") as file:
                file.write(content)
        except FileExistsError:
            return False
        return True

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        (self._root / name).unlink(missing_ok=True)


class HadoopFiles:
    """Files of a store that Spark reaches."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        context: Any = spark.sparkContext
        self._jvm = context._jvm  # noqa: SLF001  # no public way to Hadoop's files
        self._root = self._jvm.org.apache.hadoop.fs.Path(root)
        self._store = self._root.getFileSystem(context._jsc.hadoopConfiguration())  # noqa: SLF001  # the same

    def read(self, name: str) -> bytes | None:
        """Return the contents of a file; None without one."""
        path = self._path(name)
        if not self._store.exists(path):
            return None
        file = self._store.open(path)
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(file))
        finally:
            file.close()

    def write(self, name: str, content: bytes) -> None:
        """Make or replace a file."""
        self._fill(self._store.create(self._path(name), True), content)  # noqa: FBT003  # Java has no names for arguments

    def create(self, name: str, content: bytes) -> bool:
        """Make a file, unless it exists; returns whether it was made.

        The store decides between two attempts at once: S3 only if Hadoop uses its conditional writes.
        """
        making = self._store.createFile(self._path(name)).recursive().overwrite(False)  # noqa: FBT003  # Java has no names for arguments
        try:
            self._fill(making.opt(_CONDITIONAL, True).build(), content)  # noqa: FBT003  # Java has no names for arguments
        except Py4JJavaError as error:
            if self._store.exists(self._path(name)):
                return False
            raise error from None
        return True

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        self._store.delete(self._path(name), False)  # noqa: FBT003  # Java has no names for arguments

    def _path(self, name: str) -> Any:  # noqa: ANN401  # an object of Java's
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name)

    def _fill(self, file: Any, content: bytes) -> None:  # noqa: ANN401  # an object of Java's
        file.write(bytearray(content))
        file.close()


SmallFiles: TypeAlias = LocalFiles | HadoopFiles
"""Files of a few bytes below one folder, by name; both kinds have the same methods."""


def small_files(spark: SparkSession, root: str) -> SmallFiles:
    """Return the files of a root, a folder of this machine or a URL of a store that Spark reaches."""
    return HadoopFiles(spark, root) if "://" in root else LocalFiles(root)
