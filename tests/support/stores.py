"""Run moto's local S3 server in a separate process, record its requests, and make requests fail.

The server supports conditional puts, but not throttling, eventually consistent listings or limits on
responses.
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
"""Faults: the answer takes a second; the request is dropped; the request is executed but its answer is
dropped."""
FAULTS: Final = (500, 503, SLOW, DROPPED, LOST)


class Request(NamedTuple):
    """A request that the server received."""

    method: str
    path: str
    query: str
    is_conditional: bool


@dataclass(frozen=True)
class Server:
    """A running local S3 server whose requests can be counted and made to fail."""

    url: str

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables with which a process reaches the server."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_REGION": _REGION,
            "AWS_ACCESS_KEY_ID": "anyone",
            "AWS_SECRET_ACCESS_KEY": "anything",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    @property
    def client(self) -> Any:  # noqa: ANN401  # made at run time
        """Return an S3 client that shares no code with the code under test."""
        secret = {"aws_access_key_id": "tests", "aws_secret_access_key": "tests"}
        return boto3.client("s3", endpoint_url=self.url, region_name=_REGION, **secret)

    def names(self, prefix: str = "") -> list[str]:
        """Return the names of all objects in the bucket that begin with `prefix`."""
        return _keys(self.client, prefix)

    def requests(self) -> list[Request]:
        """Return the requests since the previous call of this method."""
        return [Request(*each) for each in self._control({"take": True})]

    def spoil(self, *faults: int | str, pattern: str = ".", times: int = 1_000_000, every: int = 1) -> None:
        """Make requests whose method and path match `pattern` fail, by the given faults in turn.

        Without faults, requests no longer fail.

        A fault is an HTTP status, SLOW, DROPPED or LOST. If other faults are given too, LOST applies
        only to GET.

        times : largest number of requests that fail
        every : one in this number of matching requests fails; 0: after the first match, all requests fail
        """
        self._control({"faults": faults, "pattern": pattern, "times": times, "every": every})

    def delay(self, seconds: float) -> None:
        """Delay every later answer of the server."""
        self._control({"delay_s": seconds})

    def spoiled(self) -> list[int | str]:
        """Return the faults that requests have met since the last call of `spoil`."""
        return list(self._control({"spoiled": True}))

    def _control(self, said: Mapping[str, object]) -> Any:  # noqa: ANN401  # JSON
        asked = Asked(f"{self.url}{_CONTROL}", json.dumps(said).encode(), method="PUT")  # noqa: S310  # http
        with urlopen(asked) as answer:  # noqa: S310  # the same
            return json.loads(answer.read())


@contextmanager
def s3_server() -> Iterator[Server]:
    """Run a server with one empty bucket until the block ends."""
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
    """Copy all files of a folder below a URL, on the server that the environment variables name."""
    client, prefix = boto3.client("s3"), _prefix(url)
    for path, _, names in os.walk(folder):
        for name in names:
            file = os.path.join(path, name)  # noqa: PTH118  # as os.walk gives them
            client.upload_file(file, BUCKET, f"{prefix}/{os.path.relpath(file, folder)}")


def copied(source: str, target: str) -> None:
    """Copy a local folder to another, or all objects below a URL to another URL."""
    if not is_url(source):
        shutil.copytree(source, target)
        return
    client, before, after = boto3.client("s3"), _prefix(source), _prefix(target)
    for key in _keys(client, f"{before}/"):
        to = f"{after}/{key.removeprefix(f'{before}/')}"
        client.copy_object(Bucket=BUCKET, Key=to, CopySource={"Bucket": BUCKET, "Key": key})


def removed(place: str) -> None:
    """Remove a local folder, or all objects below a URL.

    Objects that remain would slow down later tests, because the server looks at every object for a
    listing.
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
    """Middleware that records each request, and then delays it, makes it fail, or passes it on."""

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
        """Return the fault by which the request must fail; None if it must succeed."""
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
        if fault == LOST and method != "GET" and len(faults) > 1:  # a repeated write is another request
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
    while os.getppid() == parent:  # the server ends even if its test was killed
        time.sleep(1.0)


if __name__ == "__main__":
    _serve()
