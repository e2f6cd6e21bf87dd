"""Run moto's local S3 server in a separate process, count its requests, and make requests fail.

It does not model throttling, eventual listings or sizes of responses; conditional puts it does.
"""

import json
import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from urllib.request import Request as Asked
from urllib.request import urlopen

import boto3
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from jobs.runtime.places import is_url
from jobs.runtime.project import PROJECT

HOST: Final = "127.0.0.1"
BUCKET: Final = "fleet"
_REGION: Final = "eu-central-1"
_CONTROL: Final = "/_control"
_CODES: Final = {403: "ExpiredToken", 503: "SlowDown"}
SLOW, DROPPED, LOST = "slow", "dropped", "lost"
"""An answer that takes a second; a request that is dropped; an answer that does not arrive."""
FAULTS: Final = (500, 503, SLOW, DROPPED, LOST)


class Request(NamedTuple):
    """A request that the server received."""

    method: str
    path: str
    query: str
    is_conditional: bool


@dataclass(frozen=True)
class Server:
    """A running local S3 server, with its counts and faults."""

    url: str

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that a process needs to reach the server."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_REGION": _REGION,
            "AWS_ACCESS_KEY_ID": "anyone",
            "AWS_SECRET_ACCESS_KEY": "anything",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    @property
    def client(self) -> Any:  # noqa: ANN401  # made at run time
        """An S3 client that does not use the code under test."""
        secret = {"aws_access_key_id": "tests", "aws_secret_access_key": "tests"}
        return boto3.client("s3", endpoint_url=self.url, region_name=_REGION, **secret)

    def names(self, prefix: str = "") -> list[str]:
        """Names of all objects in the bucket."""
        return _keys(self.client, prefix)

    def requests(self) -> list[Request]:
        """Requests since the previous call of this method."""
        return [Request(*each) for each in self._control({"take": True})]

    def spoil(self, *faults: int | str, pattern: str = ".", times: int = 1_000_000, every: int = 1) -> None:
        """Let requests with this method and path meet the given faults in turn; without faults, end that.

        A fault is a status or SLOW, DROPPED or LOST; among others, LOST is met by requests to read alone.
        every : one in this number of matching requests; 0: all requests, as soon as one matches
        """
        self._control({"faults": faults, "pattern": pattern, "times": times, "every": every})

    def delay(self, seconds: float) -> None:
        """Delay every answer of the server."""
        self._control({"delay_s": seconds})

    def spoiled(self) -> list[int | str]:
        """Faults that requests have met since the last call of `spoil`."""
        return list(self._control({"spoiled": True}))

    def _control(self, said: Mapping[str, object]) -> Any:  # noqa: ANN401  # JSON
        asked = Asked(f"{self.url}{_CONTROL}", json.dumps(said).encode(), method="PUT")  # noqa: S310  # http
        with urlopen(asked) as answer:  # noqa: S310  # the same
            return json.loads(answer.read())


@contextmanager
def s3_server() -> Iterator[Server]:
    """Run a server with one empty bucket for the duration of a block."""
    command = [sys.executable, "-m", "tests.support.stores"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=PROJECT)
    try:
        assert process.stdout is not None
        server = Server(process.stdout.readline().strip())
        place = {"LocationConstraint": _REGION}
        server.client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration=place)
        server.requests()
        yield server
    finally:
        process.kill()
        process.communicate()


def upload(folder: str | os.PathLike[str], url: str) -> None:
    """Copy all files of a folder to a URL on the server that the environment names."""
    client, prefix = boto3.client("s3"), _prefix(url)
    for path, _, names in os.walk(folder):
        for name in names:
            file = os.path.join(path, name)  # noqa: PTH118  # as os.walk gives them
            client.upload_file(file, BUCKET, f"{prefix}/{os.path.relpath(file, folder)}")


def copied(source: str, target: str) -> None:
    """Copy a folder, or all objects below a URL on the server that the environment names."""
    if not is_url(source):
        shutil.copytree(source, target)
        return
    client, before, after = boto3.client("s3"), _prefix(source), _prefix(target)
    for key in _keys(client, f"{before}/"):
        to = f"{after}/{key.removeprefix(f'{before}/')}"
        client.copy_object(Bucket=BUCKET, Key=to, CopySource={"Bucket": BUCKET, "Key": key})


def removed(place: str) -> None:
    """Remove a local folder, or all objects below a URL.

    What is left behind makes tests slow: each listing looks at every object that the server has.
    """
    if not is_url(place):
        shutil.rmtree(place)
        return
    client = boto3.client("s3")
    keys = _keys(client, f"{_prefix(place)}/")
    for first in range(0, len(keys), 1000):
        some = [{"Key": key} for key in keys[first : first + 1000]]
        client.delete_objects(Bucket=BUCKET, Delete={"Objects": some})


def _keys(client: Any, prefix: str) -> list[str]:  # noqa: ANN401  # made at run time
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
    return [each["Key"] for page in pages for each in page.get("Contents", ())]


def _prefix(url: str) -> str:
    return url.removeprefix(f"s3://{BUCKET}/")


@dataclass
class _Counting:
    """Counts each request, and delays it, fails it or passes it on."""

    app: Callable[..., Iterable[bytes]]
    taken: list[Request] = field(default_factory=list)
    rule: dict[str, Any] = field(default_factory=dict)
    met: list[int | str] = field(default_factory=list)
    matched: int = 0
    delay_s: float = 0.0

    def __call__(self, environ: dict[str, Any], start: Callable[..., object]) -> Iterable[bytes]:
        if environ["PATH_INFO"] == _CONTROL:
            return [self._controlled(environ, start)]
        conditions = ("HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH")
        method, path, query = (
            environ.get(name, "") for name in ("REQUEST_METHOD", "PATH_INFO", "QUERY_STRING")
        )
        self.taken.append(Request(method, path, query, any(name in environ for name in conditions)))
        fault = self._fault(method, f"{method} {path}")
        time.sleep(self.delay_s + (fault == SLOW))
        if fault in {None, SLOW}:
            return self.app(environ, start)
        if isinstance(fault, str):
            if fault == LOST:
                list(self.app(environ, start))
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            raise ConnectionError(fault)
        start(f"{fault} spoiled", [("Content-Type", "application/xml")])
        code = _CODES.get(fault, "InternalError")
        return [f"<Error><Code>{code}</Code><Message>spoiled by the test</Message></Error>".encode()]

    def _fault(self, method: str, request: str) -> int | str | None:
        """Return the fault with which the request must fail, if any."""
        faults, every = self.rule.get("faults"), self.rule.get("every")
        if not faults or len(self.met) >= self.rule["times"]:
            return None
        is_after = every == 0 and self.matched > 0
        if not is_after and not re.search(self.rule["pattern"], request):
            return None
        self.matched += 1
        if every and self.matched % every:
            return None
        fault: int | str = faults[len(self.met) % len(faults)]
        if fault == LOST and method != "GET" and len(faults) > 1:  # the same write again is another
            fault = DROPPED
        self.met.append(fault)
        return fault

    def _controlled(self, environ: dict[str, Any], start: Callable[..., object]) -> bytes:
        said = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
        answer: Sequence[object] = []
        if "take" in said:
            answer, self.taken = self.taken, []
        elif "spoiled" in said:
            answer = self.met
        elif "delay_s" in said:
            self.delay_s = said["delay_s"]
        else:
            self.rule, self.met, self.matched = said, [], 0
        start("200 OK", [("Content-Type", "application/json")])
        return json.dumps(answer).encode()


def _serve() -> None:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app = _Counting(DomainDispatcherApplication(create_backend_app))
    running = make_server(HOST, 0, app, threaded=True)
    sys.stdout.write(f"http://{HOST}:{running.server_port}\n")
    sys.stdout.flush()
    parent = os.getppid()
    threading.Thread(target=running.serve_forever, daemon=True).start()
    while os.getppid() == parent:  # a test that was killed leaves no server
        time.sleep(1.0)


if __name__ == "__main__":
    _serve()
