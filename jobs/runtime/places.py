"""Locations of tables and logs: local folders, or URLs of stores in a form that all libraries understand."""

import os
import re
from typing import Final

from jobs.runtime.errors import WrongInputError

STORES: Final = ("s3", "gs", "az", "abfs", "abfss")
"""Schemes of URLs for a warehouse: stores that can create a file only if it does not exist."""
_USUAL: Final = {"s3a://": "s3://", "s3n://": "s3://", "wasbs://": "abfss://"}
"""URL schemes of Spark's connectors, and the schemes that other libraries use for the same stores."""
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
MOST_RETRIES: Final = 8
RETRIED_S: Final = 60
"""Time for which requests to a failing or silent store are retried; deltalake's default is 180 s. [s]"""
_PLAIN: Final = "http://"
_NO_BUCKET: Final = re.compile(r"NoSuchBucket|specified (?:bucket|container) does not exist")
_INSTANCE: Final = "169.254.169.254"
"""Address at which a store's client asks a cloud machine for its role, if it finds no credentials."""
_NO_KEYS: Final = (
    "no credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set, and no role is here"
)
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m|↳")
"""Colour codes, and arrows between reasons, in the messages of stores' clients."""
_ANSWER: Final = re.compile(r"(?:<\?xml[^>]*> ?)?<Error>.*?<Message>(.*?)</Message>.*?</Error>")
_MISREAD: Final = re.compile(r"%[0-9A-Fa-f]{2}|[\\\x00-\x1f\x7f]")
"""Parts of a path that deltalake misreads, because it makes a URL of it: %20 means a space, \\ means /."""
_NOT_WRITTEN: Final = re.compile(r"[*?{}\[\]^|%:]")
"""Characters that the path of a warehouse may not have. Spark reads any of *?{}[] as a pattern, which another
folder may match, and cannot use a path with a colon. deltalake's commits fail on ^ and |. The meaning of %
depends on the characters after it."""


class PlaceError(WrongInputError):
    """Raised for a URL that cannot hold a warehouse; the message is one line."""


def is_url(root: str) -> bool:
    """Return whether a root is a URL rather than a local path."""
    return "://" in root


def usual(root: str) -> str:
    """Normalise the scheme of a URL; a path stays unchanged."""
    for spark, others in _USUAL.items():
        if root.startswith(spark):
            return others + root.removeprefix(spark)
    return root


def said_by(error: BaseException) -> str:
    """Return an error of a store's client as text on one line; of an XML answer only its message."""
    said = " ".join(_COLOUR.sub("", str(error)).split()).partition(" Debug source:")[0]
    return with_reason(_ANSWER.sub(r"\1", said))[:1000]


def with_reason(said: str) -> str:
    """Return a store client's message, with a note if the client found no credentials."""
    return f"{_NO_KEYS}: {said}" if _INSTANCE in said and _NO_KEYS not in said else said


def check_bucket(root: str, said: str) -> None:
    """Raise PlaceError if a store's client said that the bucket does not exist."""
    if is_url(root) and _NO_BUCKET.search(said):
        raise PlaceError(
            f"the warehouse {root}: its store has no such bucket; give another, or another address"
        )


def copied_first(url: str) -> str:
    """Return why a command that reads only local runs refuses a URL: the run has to be copied first."""
    return (
        f"{url} is a URL: first copy the run's folder to this machine, as by `aws s3 cp --recursive URL "
        "FOLDER`, or ask the warehouse of its night, as by straggler job-page --job-id J"
    )


def check_warehouse(root: str) -> None:
    """Raise PlaceError for a URL that cannot hold a warehouse."""
    scheme, is_one, rest = root.partition("://")
    if is_one and (scheme not in (*STORES, "file") or not rest.strip("/")):
        raise PlaceError(
            f"the warehouse {root}: a warehouse is a folder of this machine, or {', '.join(STORES[:2])} or "
            f"{STORES[-1]} with a bucket, as in s3://bucket/warehouse"
        )


def check_apart(landing: str, warehouse: str) -> None:
    """Raise PlaceError if a warehouse is the landing or lies in one of its days, where producers write."""
    logs, tables = (
        path if is_url(path) else os.path.realpath(path)  # without links
        for path in (landing.removeprefix("file://"), warehouse.removeprefix("file://"))
    )
    inside = tables.removeprefix(f"{logs}/")
    is_of_day = inside != tables and inside.startswith("log_date=")
    if tables == logs or is_of_day:
        place = f"in a day's folder of the landing {landing}" if is_of_day else "the landing"
        raise PlaceError(
            f"the warehouse {warehouse} is {place}: its tables would lie among the producers' logs; name "
            "another folder by --warehouse"
        )


def s3_endpoint() -> str | None:
    """Return the endpoint of an S3 server from the environment; None for AWS. Raises PlaceError if bad."""
    endpoint = _first(_ENDPOINTS)
    if endpoint and not endpoint.startswith((_PLAIN, "https://")):
        name = next(name for name in _ENDPOINTS if os.environ.get(name))
        raise PlaceError(
            f"{name}={endpoint} begins with neither http:// nor https://: as in {_PLAIN}127.0.0.1:9000"
        )
    return endpoint


def s3_region() -> str | None:
    """Return the S3 region from the environment; None if it is not set."""
    return _first(("AWS_REGION", "AWS_DEFAULT_REGION"))


def storage_options(root: str) -> dict[str, str] | None:
    """Return the options that deltalake needs besides the environment; None for a local folder.

    deltalake reads AWS_*, GOOGLE_* and AZURE_* by itself, but accepts an http:// address only by an option.
    """
    if not is_url(root):
        return None
    options = {"max_retries": f"{MOST_RETRIES}", "retry_timeout": f"{RETRIED_S}s"}
    if root.startswith("s3://"):
        endpoint, region = s3_endpoint(), s3_region()
        options |= {"aws_endpoint_url": endpoint} if endpoint else {}
        options |= {"aws_region": region} if region else {}
        options |= {"aws_allow_http": "true"} if endpoint and endpoint.startswith(_PLAIN) else {}
    return options


def _first(names: tuple[str, ...]) -> str | None:
    return next(filter(None, map(os.environ.get, names)), None)


def not_readable(root: str) -> str:
    """Return why tables under a root cannot be read; empty if they can be read, or are in a store."""
    return _odd_in(_MISREAD, root)


def not_writable(root: str) -> str:
    """Return why tables under a root cannot be written; empty if they can be written, or are in a store."""
    return not_readable(root) or _odd_in(_NOT_WRITTEN, root)


def _odd_in(pattern: re.Pattern[str], root: str) -> str:
    found = None if "://" in root else pattern.search(root)
    return f"Delta tables cannot be in a folder with {found[0]!a} in its path" if found else ""
