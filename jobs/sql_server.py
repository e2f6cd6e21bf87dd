"""SQL server: tables and views for JDBC and ODBC, by Spark's own Thrift server, on this machine alone.

`make sql-server`, then connect to jdbc:hive2://127.0.0.1:10000 with any name and no password. Every table is
a view over its folder: nobody changes one by mistake, and each query sees what the last night published.
There is no metastore: the names live in the server and are gone with it.
"""

import argparse
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

from jobs.cli import entry_point, option, positive
from jobs.progress import working
from jobs.session import SessionError, running_gateway
from jobs.settings import Settings, SettingsError
from jobs.warehouse.tables import Warehouse
from schemas.dictionary import type_name
from schemas.table import Table, sql_strings
from schemas.tables import TABLES
from schemas.views import VIEWS

HOST: Final = "127.0.0.1"
PORT: Final = 10000


def create_views(spark: SparkSession, warehouse: Warehouse) -> None:
    """Make each table and view a view of the session's catalog, which all clients share, with its meaning.

    Raises SettingsError where there are no tables at all.
    """
    if not any(map(warehouse.exists, TABLES)):
        raise SettingsError(f"no tables in {warehouse.root}: run a night first, or name another --warehouse")
    for table in TABLES.values():
        spark.sql(_table_view(table, warehouse))
    for view in VIEWS.values():
        spark.sql(f"CREATE OR REPLACE VIEW {view.name} COMMENT {sql_strings([view.meaning])} AS {view.sql}")


@contextmanager
def serving(port: int, folder: str) -> Iterator[None]:
    """Serve the active session's catalog to clients on this machine for as long as the block lasts.

    folder : for what the server and its clients leave behind
    """
    gateway = running_gateway()
    if gateway is None:
        raise SessionError("the SQL server needs Spark in this process, not one by Spark Connect")
    gateway.jvm.java.lang.System.setProperty("derby.stream.error.file", f"{folder}/derby.log")
    session = gateway.jvm.org.apache.spark.sql.classic.SparkSession.active()
    for name, value in {
        "hive.server2.thrift.bind.host": HOST,
        "hive.server2.thrift.port": str(port),
        "hive.server2.logging.operation.log.location": f"{folder}/operation_logs",
    }.items():
        session.sparkContext().hadoopConfiguration().set(name, value)
    thrift = gateway.jvm.org.apache.spark.sql.hive.thriftserver.HiveThriftServer2
    server = thrift.startWithContext(session.sqlContext())
    try:
        yield
    finally:
        server.stop()


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until interrupted or terminated; returns the exit status."""
    with tempfile.TemporaryDirectory(prefix="sql-server-") as folder:
        conf = {"spark.sql.warehouse.dir": folder}  # of tables that clients create

        @entry_point(
            "sql_server",
            option("--port N", "port on the loopback interface (%(default)s)", positive, default=PORT),
            is_recorded=False,
            spark_conf=conf,
        )
        def serve(spark: SparkSession, settings: Settings, args: argparse.Namespace) -> dict[str, int]:
            """Serve tables and views to JDBC and ODBC clients on this machine, read-only."""
            return _serve(spark, settings, args.port, folder)

        return serve(argv)


def _serve(spark: SparkSession, settings: Settings, port: int, folder: str) -> dict[str, int]:
    _check_port(port)
    with working("sql_server: making views"):
        create_views(spark, Warehouse.of(spark, settings))
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    with serving(port, folder):
        sys.stdout.write(f"sql_server: {settings.paths.warehouse} at jdbc:hive2://{HOST}:{port}/default\n")
        sys.stdout.write("sql_server: any user name, no password; Ctrl-C ends it\n")
        sys.stdout.flush()
        over.wait()
    return {}


def _check_port(port: int) -> None:
    """Raise SettingsError where the port cannot be used."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError) as error:
            raise SettingsError(f"--port {port}: cannot be used: {error}") from None


def _table_view(table: Table, warehouse: Warehouse) -> str:
    """SQL of a table's view; no rows where the table was never written, nulls where a column was not."""
    path, source, stored = warehouse.path(table.name), " WHERE false", []
    if warehouse.exists(table.name):
        source = f" FROM delta.`{path.replace('`', '``')}`"
        stored = warehouse.spark.read.format("delta").load(path).columns
    columns = [f"{column.name} COMMENT {sql_strings([column.meaning])}" for column in table.columns]
    values = [
        column.name if column.name in stored else f"CAST(NULL AS {type_name(column.type)}) AS {column.name}"
        for column in table.columns
    ]
    return (
        f"CREATE OR REPLACE VIEW {table.name} ({', '.join(columns)}) COMMENT {sql_strings([table.meaning])} "
        f"AS SELECT {', '.join(values)}{source}"
    )


if __name__ == "__main__":
    sys.exit(main())
