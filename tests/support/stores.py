"""An S3 server of this process on the loopback interface: moto's, which counts and may spoil requests.

It does not model throttling, eventual listings or sizes of responses; conditional puts it does.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import boto3
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

HOST: Final = "127.0.0.1"
BUCKET: Final = "fleet"
_REGION: Final = "eu-central-1"


class Request(NamedTuple):
    """A request as it came."""

    method: str
    path: str
    query: str
    is_conditional: bool


Spoil = Callable[[Request], int]
"""Says with which status a request fails; 0: it does not."""


@dataclass
class Server:
    """A running server. spoil : what fails; delay_s : before each answer"""

    url: str
    requests: list[Request] = field(default_factory=list)
    spoil: Spoil = lambda _: 0
    delay_s: float = 0.0

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to reach it."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_REGION": _REGION,
            "AWS_ACCESS_KEY_ID": "anybody",
            "AWS_SECRET_ACCESS_KEY": "anything",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    @property
    def client(self) -> Any:  # noqa: ANN401  # made at run time
        """A client that no code under test uses."""
        return boto3.client(
            "s3",
            endpoint_url=self.url,
            region_name=_REGION,
            aws_access_key_id="tests",
            aws_secret_access_key="tests",  # noqa: S106  # of nothing
        )

    def names(self, prefix: str = "") -> list[str]:
        """Every object of the bucket."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [each["Key"] for page in pages for each in page.get("Contents", ())]

    def answer(
        self, app: Callable[..., Iterable[bytes]], environ: Mapping[str, str], start: Callable[..., object]
    ) -> Iterable[bytes]:
        """Count, delay, spoil or pass on a request."""
        conditions = ("HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH")
        request = Request(
            environ["REQUEST_METHOD"],
            environ["PATH_INFO"],
            environ.get("QUERY_STRING", ""),
            any(name in environ for name in conditions),
        )
        self.requests.append(request)
        time.sleep(self.delay_s)
        status = self.spoil(request)
        if not status:
            return app(environ, start)
        start(f"{status} spoiled", [("Content-Type", "application/xml")])
        code = {403: "ExpiredToken", 503: "SlowDown"}.get(status, "InternalError")
        return [f"<Error><Code>{code}</Code><Message>spoiled</Message></Error>".encode()]


@contextmanager
def s3_server() -> Iterator[Server]:
    """Run a server with one empty bucket."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app = DomainDispatcherApplication(create_backend_app)
    served = Server("")
    running = make_server(HOST, 0, lambda *request: served.answer(app, *request), threaded=True)
    served.url = f"http://{HOST}:{running.server_port}"
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    try:
        served.client.create_bucket(
            Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": _REGION}
        )
        served.requests.clear()
        yield served
    finally:
        running.shutdown()
        thread.join()


def upload(server: Server, folder: str | os.PathLike[str], prefix: str) -> None:
    """Copy all files of a folder."""
    for path, _, names in os.walk(folder):
        for name in names:
            file = os.path.join(path, name)  # noqa: PTH118  # as os.walk gives them
            server.client.upload_file(file, BUCKET, f"{prefix}/{os.path.relpath(file, folder)}")
