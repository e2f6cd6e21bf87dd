"""Spark submits valid objects to Kubernetes; a server that only records takes the place of its API server."""

import json
import os
import re
import shlex
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it has no types
import pytest
import yaml

from jobs.runtime.project import PROJECT
from tests.support.commands import spark_submit, start

FILES = PROJECT / "conf/kubernetes"
SCHEMA = json.loads((PROJECT / "tests/data/kubernetes/v1.37.json").read_text())
KINDS = {name.rpartition(".")[2]: f"#/$defs/{name}" for name in SCHEMA["$defs"]}
DOCUMENTS = [each for file in sorted(FILES.glob("*.yaml")) for each in yaml.safe_load_all(file.read_text())]


def check(resource: dict[str, Any]) -> None:
    """Raise jsonschema.ValidationError unless an object is valid by Kubernetes' schema."""
    jsonschema.validate(resource, {**SCHEMA, "$ref": KINDS[resource["kind"]]})


@contextmanager
def api_server() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the URL of an API server, and the list of objects that it was asked to create."""
    made: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def _answer(self, status: int, body: object) -> None:
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self) -> None:
            self._answer(404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404})

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            made.append(asked)
            self._answer(201, asked | {"metadata": asked["metadata"] | {"uid": f"uid-{len(made)}"}})

        do_PATCH = do_PUT = do_POST  # noqa: N815  # names that http.server needs

        def log_message(self, *_: object) -> None:
            """Suppress the server's log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"k8s://http://127.0.0.1:{server.server_port}", made
    finally:
        server.shutdown()
        server.server_close()


def documented() -> list[str]:
    """Return the words of the spark-submit command in jobs/README.md."""
    text = (PROJECT / "jobs/README.md").read_text().replace("\\\n", " ")
    (line,) = re.findall(r"^spark-submit --master k8s://.*$", text, re.MULTILINE)
    return shlex.split(line)[1:]


@pytest.mark.parametrize("resource", DOCUMENTS, ids=lambda each: f"{each['kind']} {each['metadata']}"[:40])
def test_what_lies_in_conf_is_what_kubernetes_takes(resource: dict[str, Any]) -> None:
    check(resource)


def test_a_misspelt_key_is_not_taken() -> None:
    (pod, *_) = (each for each in DOCUMENTS if each["kind"] == "Pod")
    spec = pod["spec"] | {"containers": [pod["spec"]["containers"][0] | {"envfrom": []}]}
    with pytest.raises(jsonschema.ValidationError, match="envfrom"):
        check(pod | {"spec": spec})


def test_the_image_copies_what_is_there() -> None:
    text = (FILES / "Dockerfile").read_text()
    sources = [word for line in re.findall(r"^COPY (.*) \S+$", text, re.MULTILINE) for word in line.split()]
    assert {"conf", "jobs", "udfs", "schemas", "Makefile"} <= {*sources}
    assert [name for name in sources if not (PROJECT / name).exists()] == []
    assert "conf/kubernetes/entrypoint.sh" in text


@pytest.mark.slow
def test_the_documented_submission_makes_a_driver_that_kubernetes_takes(tmp_path: Path) -> None:
    words = documented()
    with api_server() as (url, made):
        words[words.index("--master") + 1] = url
        done = start(spark_submit("--conf", "spark.kubernetes.submission.waitAppCompletion=false", *words))
    assert done.returncode == 0, done.stderr
    for each in made:
        check(each)
    (driver,) = (each for each in made if each["kind"] == "Pod")
    (container,) = driver["spec"]["containers"]
    assert container["image"] == "registry.example/straggler:0.4.0"
    assert container["resources"]["limits"]["memory"] == "4096Mi"
    assert container["envFrom"] == DOCUMENTS[-1]["spec"]["containers"][0]["envFrom"]
    assert driver["spec"]["serviceAccountName"] == "straggler"

    # The image's entry point passes the driver's arguments to the image's spark-submit.
    submit = tmp_path / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    submit.chmod(0o755)
    in_pod = {"SPARK_HOME": str(tmp_path), "JAVA_HOME": "/java", "SPARK_DRIVER_BIND_ADDRESS": "10.0.0.7"}
    entry = ["bash", str(FILES / "entrypoint.sh"), *container["args"]]
    ran = subprocess.run(entry, env={**os.environ, **in_pod}, capture_output=True, text=True, check=True)
    handed_on = ran.stdout.splitlines()
    assert handed_on[:4] == ["--deploy-mode", "client", "--conf", "spark.driver.bindAddress=10.0.0.7"]
    assert handed_on[-len(container["args"]) + 1 :] == container["args"][1:]
    assert "local:///opt/straggler/jobs/run_nightly.py" in handed_on
