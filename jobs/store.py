"""Small files beside the tables, in whatever store those lie: written, removed, looked for as Spark does."""

from typing import cast

from py4j.java_gateway import JavaObject, JVMView
from pyspark.sql import SparkSession


def write_text(spark: SparkSession, path: str, text: str) -> None:
    """Write a file, in the place of one that was there."""
    store, target = _located(spark, path)
    stream = store.create(target)  # which replaces
    try:
        stream.write(bytearray(text.encode()))
    finally:
        stream.close()


def remove(spark: SparkSession, path: str) -> None:
    """Remove a file, where it is there."""
    store, target = _located(spark, path)
    store.delete(target, False)  # noqa: FBT003  # Java takes it by place: not what is below a folder


def _located(spark: SparkSession, path: str) -> tuple[JavaObject, JavaObject]:
    """Hadoop's file system and path: the store is asked as Spark's readers and writers ask it."""
    context, jvm = spark.sparkContext, cast("JVMView", spark._jvm)  # noqa: SLF001  # no public way to a store
    target = jvm.org.apache.hadoop.fs.Path(path)
    return target.getFileSystem(context._jsc.hadoopConfiguration()), target  # noqa: SLF001  # the same
