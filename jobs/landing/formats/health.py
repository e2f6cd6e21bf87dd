"""Health of hosts, format health/1: the times and results of checks of a host.

The file has one JSON object per line. A bad line becomes a reject, and does not affect other lines.
"""

from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import Final, NamedTuple

from jobs.landing.formats.rank_log_line import (
    NAME,
    LineError,
    bad_type,
    check_choice,
    check_format,
    check_required,
    read_record,
)
from jobs.landing.formats.rows import MOST_TEXT, Bounds, plain
from jobs.landing.formats.strict_json import is_integer, is_name, is_text, shown
from schemas.health_tables import NO_DEVICE
from schemas.vocabulary import (
    HEALTH_COMPONENTS,
    HEALTH_FORMAT,
    HEALTH_SEVERITIES,
    HEALTH_STATES,
    HEALTH_WARNING,
    Reason,
)

MOST_MESSAGE: Final = 300
"""Characters of a message that are stored."""

_REQUIRED: Final = ("format", "time", "host", "component", "check", "state")
_KNOWN: Final = {*_REQUIRED, "index", "peer", "value", "unit", "severity", "message"}
LARGEST: Final = 1e300
"""Largest valid size of a value; larger ones cannot be measurements."""
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_DAY_US: Final = timedelta(days=1) // _MICROSECOND
_END_US: Final = (datetime.max.replace(tzinfo=UTC) - EPOCH) // _MICROSECOND


class Check(NamedTuple):
    """Identity of a check on a host; events with the same identity are joined to spans.

    device : index among the host's components of this kind, or NO_DEVICE; peer : other end of a link, or ""
    """

    host: str
    component: str
    device: int
    check_name: str
    peer: str


class Event(NamedTuple):
    """Result of a check. at_us : Unix time; severity : its position in HEALTH_SEVERITIES"""

    at_us: int
    state: str
    severity: int
    value: float | None
    unit: str | None
    message: str | None


def read_event(line: bytes, log_date: date, bounds: Bounds) -> tuple[Check, Event]:
    """Return the event in a line. Unknown keys are ignored.

    log_date : the day of the folder; times more than a day before or after this day are rejected
    Raises LineError for the first reason that applies.
    """
    record = read_record(line, bounds, _KNOWN)
    check_format(record, HEALTH_FORMAT)
    check_required(record, _REQUIRED)
    for name in ("host", "check", "peer", "unit"):
        text = record.get(name)
        if text is not None and not (is_name(text, MOST_TEXT) and (text or name == "unit")):
            raise bad_type(name, text, NAME)
    if record.get("message") is not None and not is_text(record["message"]):
        raise bad_type("message", record["message"], "text")
    check_choice(record, "component", HEALTH_COMPONENTS)
    check_choice(record, "state", HEALTH_STATES)
    check_choice(record, "severity", HEALTH_SEVERITIES)
    if record.get("index") is not None and not is_integer(record["index"], 0, 2**31):
        raise bad_type("index", record["index"], "an integer from 0 to 2^31")
    at_us = _time_us(record["time"], log_date)
    index = NO_DEVICE if record.get("index") is None else record["index"]
    check = Check(record["host"], record["component"], index, record["check"], record.get("peer") or "")
    severity = HEALTH_SEVERITIES.index(record.get("severity") or HEALTH_WARNING)
    message, value = record.get("message"), record.get("value")
    if value is not None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise bad_type("value", value, "a number")
        if not abs(value) <= LARGEST:
            raise LineError(Reason.NOT_FINITE, f"value is {shown(value)}")
    return check, Event(
        at_us,
        record["state"],
        severity,
        None if value is None else float(value),
        record.get("unit"),
        None if message is None else plain(message)[:MOST_MESSAGE],
    )


def _time_us(time: object, log_date: date) -> int:
    """Return the Unix time of an event, stated as a number or in ISO 8601 with a zone. [us]

    Raises LineError for a time that is not within a day of `log_date`.
    """
    at_us = time if is_integer(time) else None
    if isinstance(time, str):
        with suppress(ValueError, TypeError):  # no time, or one without a zone
            at_us = (datetime.fromisoformat(time) - EPOCH) // _MICROSECOND
    if at_us is None:
        raise bad_type("time", time, "Unix time in microseconds, or ISO 8601 with a zone")
    if at_us < 0:
        raise LineError(Reason.NEGATIVE_TIME, f"time is {shown(time)}")
    begin_us = (log_date - EPOCH.date()) // _MICROSECOND
    if not begin_us - _DAY_US <= at_us < min(begin_us + 2 * _DAY_US, _END_US):
        raise LineError(Reason.IDENTITY_MISMATCH, f"time is {shown(time)}, but the folder is of {log_date}")
    return at_us
