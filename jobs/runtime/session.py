"""Creation of Spark sessions; no other module creates one, so that all commands share settings.

This module finds Java, the executors' Python, this project's code and Delta's JARs, so that no environment
has to be activated and no variable exported. Under spark-submit, its options override conf/.
"""

import logging
import os
import re
import resource
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from py4j.java_gateway import JavaGateway, JavaObject
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from jobs.runtime.delta_jars import resolved_jars, resolver_conf
from jobs.runtime.errors import PlainError
from jobs.runtime.interrupts import interruptible, own_handler
from jobs.runtime.jvm import JvmError, has_ended, is_submitted, launch_jvm
from jobs.runtime.package import ZIP_NAME, write_zip
from jobs.runtime.project import PROJECT, is_zip
from jobs.runtime.run_folder import run_folder
from jobs.runtime.settings import Settings
from jobs.runtime.settings_sections import SparkSettings

_LOG: Final = logging.getLogger(__name__)
_LOOPBACK: Final = "127.0.0.1"
_CLASS_PATH: Final = "spark.driver.extraClassPath"


_FEWEST_FILES: Final = 1024
"""File descriptors that a night needs, because Spark opens its 276 JARs."""


class SessionError(PlainError):
    """Raised when no usable session can be made; the message says in one line what to do."""


@contextmanager
def session(settings: Settings, app_name: str) -> Iterator[SparkSession]:
    """Yield the active session, or else a new session that is stopped at the end."""
    active = SparkSession.getActiveSession()
    if active is not None:
        with interruptible(active):
            yield active
        return
    with log_on_error(settings.spark.log, app_name):
        spark = make_session(settings, app_name)
        with interruptible(spark):
            try:
                yield spark
            finally:
                _stop(spark)


def _stop(spark: SparkSession) -> None:
    """Stop a session, if its JVM has not ended by itself."""
    try:
        spark.stop()
    except (ConnectionError, Py4JError) as error:
        if not has_ended(error):
            raise


def make_session(settings: Settings, app_name: str) -> SparkSession:
    """Make a session with Delta support.

    Raises SessionError if Delta's JARs are missing, JavaNotFoundError without Java 17 or 21.
    """
    spark = settings.spark
    # The JVM of a stopped session is used again, because a process can have only one.
    gateway = running_gateway() or (launch_gateway() if is_submitted() else _start_jvm(spark))
    conf = SparkConf(_jvm=gateway.jvm)
    if is_submitted():
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        for key, value in _spark_conf(spark, conf.get("spark.master")).items():
            conf.setIfMissing(key, value)
        if not _has_delta(gateway):  # the running JVM of spark-submit, and its executors
            jars = resolved_jars(spark.packages)
            for jar in jars:
                _class_loader(gateway).addURL(gateway.jvm.java.io.File(jar).toURI().toURL())
            conf.set("spark.jars", ",".join([*filter(None, [conf.get("spark.jars", "")]), *jars]))
    else:
        conf.setAll(list(_spark_conf(spark, spark.master).items()))
    if not _has_delta(gateway):
        raise SessionError(_no_delta(spark))
    with own_handler():
        context = SparkContext(conf=conf.setAppName(app_name), gateway=gateway)
    if not _is_local(conf.get("spark.master")):  # workers here have this process's environment anyway
        # Tasks carry the variables that configure stores, so that no setting shows them.
        for name, value in os.environ.items():
            if name.startswith(("AWS_", "GOOGLE_", "AZURE_")):
                context.environment[name] = value
    return SparkSession(context)


def running_gateway() -> JavaGateway | None:
    """Return the gateway to this process's JVM; None if no JVM was started."""
    return SparkContext._gateway  # noqa: SLF001  # no public way to it


def _start_jvm(spark: SparkSettings) -> JavaGateway:
    """Start a JVM with Delta on its class path."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most != resource.RLIM_INFINITY and most < _FEWEST_FILES:
        raise SessionError(
            f"Spark opens {_FEWEST_FILES} files, its own JARs among them, and this process may open {most}: "
            f"raise the hard limit, as by ulimit -n {_FEWEST_FILES}"
        )
    log = log_file(spark.log)
    conf = _spark_conf(spark, spark.master)
    jars = resolved_jars(spark.packages)
    if jars:
        class_path = [*filter(None, [conf.get(_CLASS_PATH, "")]), *jars]
        conf |= {"spark.jars": ",".join(jars), _CLASS_PATH: os.pathsep.join(class_path)}
    else:
        conf |= resolver_conf(spark)
    if not _is_local(spark.master):
        conf["spark.submit.pyFiles"] = str(PROJECT if is_zip() else write_zip(run_folder() / ZIP_NAME))
    try:
        with log.open("ab") as output:
            return launch_jvm(conf, output)
    except OSError as error:
        raise SessionError(f"spark.log: {log}: {error.strerror}") from None
    except JvmError as error:
        raise SessionError(f"{error}: {_last_line(log)}" if jars else _no_delta(spark)) from None


def _spark_conf(spark: SparkSettings, master: str | None) -> dict[str, str]:
    """Return Spark settings from conf/; a local master binds loopback and gives workers the code."""
    if not _is_local(master):
        return {**({"spark.master": master} if master else {}), **spark.conf}
    master = master or "local[*]"
    if threads := re.fullmatch(r"local(?:\[([^,\]]+)\])?", master):
        # Two attempts: the second runs units one by one.
        master = f"local[{threads[1] or 1}, 2]"
    return {
        "spark.master": master,
        "spark.driver.host": _LOOPBACK,
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.executorEnv.PYTHONPATH": str(PROJECT),
        **spark.conf,
    }


def _is_local(master: str | None) -> bool:
    return master is None or master.startswith("local")


def _has_delta(gateway: JavaGateway) -> bool:
    """Return whether the JVM has Delta's classes; without them Spark fails only at the first table."""
    try:
        _class_loader(gateway).loadClass("io.delta.sql.DeltaSparkSessionExtension")
    except Py4JJavaError:
        return False
    return True


def _class_loader(gateway: JavaGateway) -> JavaObject:
    return gateway.jvm.java.lang.Thread.currentThread().getContextClassLoader()


def _no_delta(spark: SparkSettings) -> str:
    return (
        f"Delta's JARs ({', '.join(spark.packages)}) are missing: run `make jars` once with network, or give "
        f"spark-submit --packages {','.join(spark.packages)}"
    )


def log_file(named: str | None) -> Path:
    """Return the file for Spark's output, from the settings, or a temporary file."""
    return run_folder() / "spark.log" if named is None else Path(named)


@contextmanager
def log_on_error(named: str | None, entry_point: str) -> Iterator[None]:
    """Log the path of Spark's output if the block fails; copy a temporary file first, so that it stays."""
    try:
        yield
    except Exception:
        log = log_file(named)
        if _last_line(log):
            _LOG.warning("Spark's output: %s", log if named else _copied(log, entry_point))
        raise


def _last_line(log: Path) -> str:
    """Return the last line of Spark's output; empty if it printed only its usual start messages."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    at_every_start = "WARNING: Using incubator modules"
    printed = [line.strip() for line in lines if line.strip() and not line.startswith(at_every_start)]
    return printed[-1] if printed else ""


def _copied(log: Path, entry_point: str) -> Path:
    with (
        tempfile.NamedTemporaryFile(prefix=f"{entry_point}-spark-", suffix=".log", delete=False) as file,
        log.open("rb") as printed,
    ):
        shutil.copyfileobj(printed, file)
    return Path(file.name)
