"""Start of a Spark session's JVM, with the environment variables that Spark's scripts and workers read."""

import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

import psutil
import pyspark
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkConf
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway

from jobs.runtime.errors import WrongInputError
from jobs.runtime.java import find_java_home
from jobs.runtime.project import PROJECT, is_zip
from jobs.runtime.run_folder import run_folder

_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_AT_START: Final = frozenset(
    (
        *("spark.app.name", "spark.master", "spark.submit.deployMode", "spark.submit.pyFiles"),
        *("spark.driver.cores", "spark.driver.memory", "spark.driver.memoryOverhead"),
        *("spark.driver.extraClassPath", "spark.driver.extraLibraryPath", _JAVA_OPTIONS),
        *("spark.driver.defaultJavaOptions", "spark.jars", "spark.jars.excludes", "spark.jars.ivy"),
        *("spark.jars.ivySettings", "spark.jars.packages", "spark.jars.repositories"),
        *("spark.kerberos.keytab", "spark.kerberos.principal"),
    )
)
"""Spark settings that a JVM needs on its command line, which everyone on the machine can read."""
_SECRET: Final = re.compile(r"://[^/\s,]*@|[?&]\w+=|(secret|password|token|key)=", re.IGNORECASE)
"""Pattern of a password or key in a setting's value, within a URL or a Java option."""


class JvmError(Exception):
    """Raised when the JVM ends before it can be used; the message is one line."""


class SecretError(WrongInputError):
    """Raised for a setting that would expose a secret on the command line."""


def is_submitted() -> bool:
    """Return whether spark-submit started this process, together with a JVM."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def launch_jvm(conf: Mapping[str, str], errors: IO[bytes]) -> JavaGateway:
    """Start a JVM with these Spark settings.

    Only settings that the JVM needs at its start are on its command line. The session sets all others.

    errors : file for the JVM's standard error
    Raises JavaNotFoundError without a suitable Java, SecretError if a setting that has to be on the command
    line seems to hold a secret, JvmError if the JVM does not start.
    """
    file = PROJECT / "conf" / "log4j2.properties"  # hides warnings that every start prints
    logging = {} if is_zip() else {_JAVA_OPTIONS: f"-Dlog4j2.configurationFile={file}"}
    options = {name: value for name, value in {**logging, **conf}.items() if name in _AT_START}
    for name, value in options.items():
        if _SECRET.search(value):
            raise SecretError(
                f"{name} seems to hold a password or key, and everyone on this machine could read it on the "
                "command line of Spark's JVM: put credentials of repositories into the file that "
                "spark.jars.ivySettings names, options of Java into the variable JDK_JAVA_OPTIONS"
            )
    _set_environment(conf)
    options[_JAVA_OPTIONS] = f'"-Djava.io.tmpdir={run_folder()}" {options.get(_JAVA_OPTIONS, "")}'.strip()
    arguments = SparkConf(loadDefaults=False).setAll(list(options.items()))
    earlier = set(psutil.Process().children(recursive=True))
    try:
        return launch_gateway(arguments, {"stderr": errors})
    except PySparkException as error:
        raise JvmError(f"Spark's JVM did not start: {error}".splitlines()[0]) from None
    except KeyboardInterrupt:
        # Ctrl-C reaches only this process: a starting JVM would stay, although nothing can connect to it.
        for child in set(psutil.Process().children(recursive=True)) - earlier:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        raise


def has_ended(error: Exception) -> bool:
    """Return whether py4j's error says that the JVM has ended, as Spark's does when out of memory.

    If an answer breaks off, py4j has no error text of the JVM, and raises a Py4JError without a trace.
    """
    if isinstance(error, ConnectionError | Py4JNetworkError):
        return True
    return type(error) is Py4JError and "Trace:" not in str(error)


def _set_environment(conf: Mapping[str, str]) -> None:
    """Set the variables that Spark's scripts and workers read, in place of the shell's values."""
    os.environ["JAVA_HOME"] = str(find_java_home())
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    os.environ["PYSPARK_PYTHON"] = conf.get("spark.pyspark.python", sys.executable)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if conf.get("spark.master", "local").startswith("local"):
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
