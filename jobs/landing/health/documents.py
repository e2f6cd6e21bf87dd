"""Readers of health reports in JSON: events of NVSentinel, reports of node-problem-detector."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from jobs.landing.health.source import Given, Lines, Record, SourceError, record, unix_time
from schemas.vocabulary import (
    HEALTH_ENDS,
    HEALTH_ERROR,
    HEALTH_FATAL,
    HEALTH_OK,
    HEALTH_SAMPLE,
    HEALTH_STARTS,
    HEALTH_WARNING,
)

_COMPONENTS: Final = {
    "gpu": "gpu",
    "nic": "nic",
    "network": "nic",
    "infiniband": "nic",
    "nvswitch": "link",
    "nvlink": "link",
    "disk": "disk",
    "storage": "disk",
}
"""Component classes of NVSentinel; all others belong to the node."""
_INSIDE: Final = ("data", "fulldocument", "healthevent")
"""Keys under which an event may be nested: of a CloudEvent, of a change stream, of the stored document."""
_READY: Final = "ready"
"""The only condition of a Kubernetes node that is true on a healthy node."""


def nvsentinel(lines: Lines, given: Given) -> Iterator[Record]:
    """Read HealthEvents of NVSentinel: one JSON document, or one per line, also within envelopes."""
    for document in _documents(lines, given):
        event = _lower(document)
        while inner := next((event[key] for key in _INSIDE if isinstance(event.get(key), dict)), None):
            event = _lower(inner)
        host, check = event.get("nodename") or given.host, event.get("checkname")
        at = _time(event.get("generatedtimestamp"), given)
        if not (isinstance(host, str) and host and isinstance(check, str) and check) or at is None:
            given.left_out["documents without nodeName, checkName or a time"] += 1
            continue
        is_healthy = event.get("ishealthy") is True
        severity = HEALTH_FATAL if event.get("isfatal") is True else HEALTH_ERROR
        given_codes = event.get("errorcode")
        codes = " ".join(map(_text, given_codes if isinstance(given_codes, list) else [given_codes]))
        entities, gpus = event.get("entitiesimpacted"), set[int]()
        for each in entities if isinstance(entities, list) else ():
            one = _lower(each) if isinstance(each, dict) else {}
            text = str(one.get("entityvalue")).removeprefix("GPU-")
            if str(one.get("entitytype")).upper() == "GPU" and text.isdecimal() and len(text) < 6:
                gpus.add(int(text))
        yield record(
            at,
            host,
            _COMPONENTS.get(str(event.get("componentclass")).lower(), "node"),
            check,
            HEALTH_ENDS if is_healthy else HEALTH_STARTS,
            HEALTH_OK if is_healthy else severity,
            index=gpus.pop() if len(gpus) == 1 else None,
            message=" ".join(filter(None, (codes, _text(event.get("message"))))) or None,
        )


def problem_detector(lines: Lines, given: Given) -> Iterator[Record]:
    """Read the nodes or events of node-problem-detector, as kubectl prints them with -o json."""
    for document in _documents(lines, given):
        for item in document["items"] if isinstance(document.get("items"), list) else [document]:
            if not isinstance(item, dict):
                given.left_out["items that are not objects"] += 1
            elif item.get("kind") == "Event" or "involvedObject" in item:
                yield from _of_event(item, given)
            else:
                yield from _of_node(item, given)


def _of_node(node: Mapping[str, Any], given: Given) -> Iterator[Record]:
    host = _text(_at(node, "metadata", "name")) or given.host
    conditions = _at(node, "status", "conditions")
    for each in conditions if isinstance(conditions, list) else ():
        kind, status = _text(_at(each, "type")), _at(each, "status")
        changed, seen = (_time(_at(each, f"last{name}Time"), given) for name in ("Transition", "Heartbeat"))
        if not host or not kind or changed is None:
            given.left_out["conditions without a node, a type or a time"] += 1
            continue
        failed = status != ("True" if kind.lower() == _READY else "False")
        if failed:
            severity = HEALTH_ERROR if status in ("True", "False") else HEALTH_WARNING
            message = f"{_text(each.get('reason'))}: {_text(each.get('message'))}"
            yield record(changed, host, "node", kind, HEALTH_STARTS, severity, message=message)
        else:
            yield record(seen or changed, host, "node", kind, HEALTH_SAMPLE, HEALTH_OK)


def _of_event(event: Mapping[str, Any], given: Given) -> Iterator[Record]:
    about = event.get("involvedObject")
    host, check = _text(_at(about, "name")) or given.host, _text(event.get("reason"))
    times = [_time(event.get(name), given) for name in ("firstTimestamp", "lastTimestamp", "eventTime")]
    known = sorted({time for time in times if time is not None})
    if _at(about, "kind") != "Node" or not host or not check or not known:
        given.left_out["events not of a node, or without a reason or a time"] += 1
        return
    severity = HEALTH_WARNING if event.get("type") == "Warning" else HEALTH_OK
    for at in known:
        yield record(
            at, host, "node", check, HEALTH_SAMPLE, severity, message=_text(event.get("message")) or None
        )


def _documents(lines: Lines, given: Given) -> Iterator[dict[str, Any]]:
    """Yield the objects of one JSON document, of an array, or of each line; other lines are left out.

    Raises SourceError if neither the document nor any line is an object, or if an array has other items.
    """
    lines = list(lines)
    try:
        found = json.loads("\n".join(lines))
    except (ValueError, RecursionError) as error:
        objects = [each for each in map(_object, lines) if each is not None]
        if not objects:
            raise SourceError(f"not JSON: {error}") from None
        others = sum(bool(line.strip()) for line in lines) - len(objects)
        given.left_out.update({"lines that are not JSON objects": others} if others else {})
        yield from objects
        return
    for each in found if isinstance(found, list) else [found]:
        if not isinstance(each, dict):
            raise SourceError("not a JSON object, nor several")
        yield each


def _object(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _lower(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with its keys in lower case, as NVSentinel's store spells them."""
    return {key.lower(): value for key, value in document.items()}


def _time(value: object, given: Given) -> datetime | None:
    """Return a time given in ISO 8601 or as protobuf's seconds and nanos; None if it is missing."""
    if isinstance(value, dict):
        seconds, nanos = value.get("seconds"), value.get("nanos") or 0
        if isinstance(seconds, int | float) and isinstance(nanos, int | float):
            return unix_time(seconds, nanos)
        return None
    return given.known_time(value) if isinstance(value, str) else None


def _text(value: object) -> str:
    """Return text, or a number as text; empty for anything else."""
    return str(value) if isinstance(value, str | int | float) else ""


def _at(value: Any, *path: str) -> Any:  # noqa: ANN401  # any JSON value
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value
