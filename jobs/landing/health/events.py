"""Readers of host events from other tools: Slurm's drains, kernel lines with an XID, rows of a CSV."""

import csv
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

from jobs.landing.formats.rows import MOST_TEXT
from jobs.landing.health.source import Given, Lines, Record, SourceError, record
from schemas.vocabulary import (
    HEALTH_ENDS,
    HEALTH_ERROR,
    HEALTH_FATAL,
    HEALTH_INFO,
    HEALTH_OK,
    HEALTH_SAMPLE,
    HEALTH_STARTS,
    HEALTH_WARNING,
)

_SINCE: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
_REASON: Final = re.compile(r"Reason=(.*)")
_SET_BY: Final = re.compile(rf"\[[^\[\]@]*@({_SINCE.pattern})\]")
_BRACKETS: Final = re.compile(r"([^\[\],]*)\[([^\[\]]*)\]([^\[\],]*)|([^\[\],]+)")
_DIGITS: Final = 18
"""Most digits of a number in a list of nodes."""
_MOST_NODES: Final = 100_000
_TAKEN_OUT: Final = ("DRAIN", "DOWN", "FAIL", "NOT_RESPONDING", "MAINT")

_XID: Final = re.compile(r"NVRM: Xid \((?:PCI:)?([^()]*)\): (\d{1,9})\b(.*)")
_ISO: Final = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)\s+(?:(\S+)\s+kernel\b)?"
)
_SYSLOG: Final = re.compile(r"([A-Z][a-z]{2}\s+\d+ \d\d:\d\d:\d\d)\s+(\S+)\s+kernel\b")
_XID_SEVERITY: Final = {
    **dict.fromkeys(("48", "63", "64", "74", "94", "95", "119", "120"), HEALTH_ERROR),
    "79": HEALTH_FATAL,
    **dict.fromkeys(("13", "31", "43", "45"), HEALTH_INFO),
}
"""Severity of XIDs by NVIDIA's list: errors of memory, NVLink or the GPU's controller, a GPU that fell off
the bus (79), and XIDs that programs cause. All other XIDs are warnings."""

_COLUMNS: Final = ("time", "host", "component", "check")
_OPTIONAL: Final = ("state", "severity", "index", "value", "unit", "message", "peer")


def sinfo(lines: Lines, given: Given) -> Iterator[Record]:
    """Read `sinfo -R`: one line per reason, with its user, its time, and its nodes."""
    for line in lines:
        reason, *found = line.rsplit(None, 3) or [""]
        at = given.known_time(found[1]) if len(found) == 3 and _SINCE.fullmatch(found[1]) else None
        if at is None:
            given.left_out["lines without reason, user, time and nodes"] += bool(line.strip())
            continue
        for host in nodes(found[2]):
            yield record(at, host, "node", "drained", HEALTH_STARTS, HEALTH_ERROR, message=reason.strip())


def scontrol(lines: Lines, given: Given) -> Iterator[Record]:
    """Read `scontrol show node`: nodes that are out of service, with reason and time.

    Nodes in service become passed checks at the time of the output, if --time or a line states it.
    """
    for block in re.split(r"(?m)^(?=[ \t]*NodeName=)", "\n".join(lines)):
        name, state = (re.search(rf"\b{key}=(\S+)", block) for key in ("NodeName", "State"))
        if name is None or state is None:
            given.left_out["blocks without NodeName and State"] += bool(block.strip())
            continue
        reason = _REASON.search(block)
        since = _SET_BY.search(reason[1]) if reason else None
        at = given.known_time(since[1]) if since else None
        if not any(word in state[1] for word in _TAKEN_OUT):
            if given.at is not None:
                yield record(given.at, name[1], "node", "drained", HEALTH_SAMPLE, HEALTH_OK)
        elif reason is None or since is None or at is None:
            given.left_out["nodes out of service without a time"] += 1
        else:
            message = f"{reason[1][: since.start()].rstrip()} ({state[1]})"
            yield record(at, name[1], "node", "drained", HEALTH_STARTS, HEALTH_ERROR, message=message)


def nodes(listed: str) -> Iterator[str]:
    """Return the names in a list of Slurm nodes, such as gpu[001-003,7],login.

    Raises SourceError for a list without an end.
    """
    if _BRACKETS.sub("", listed).strip(","):
        raise SourceError(f"not a list of nodes: {listed[:60]!r}")
    count = 0
    for head, inside, tail, plain in _BRACKETS.findall(listed):
        for part in inside.split(",") if inside else [""]:
            first, _, last = part.partition("-")
            is_range = first.isdecimal() and (last or first).isdecimal()
            if part and not (is_range and max(len(first), len(last)) <= _DIGITS):
                raise SourceError(f"not a list of nodes: {listed[:60]!r}")
            numbers = range(int(first), int(last or first) + 1) if part else range(1)
            count += len(numbers)
            if count > _MOST_NODES or len(head) + len(tail) + len(plain) > MOST_TEXT:
                raise SourceError(f"more than {_MOST_NODES} nodes, or long names, in {listed[:60]!r}")
            for number in numbers:
                yield f"{head}{number:0{len(first)}d}{tail}" if part else plain


def kernel(lines: Lines, given: Given) -> Iterator[Record]:
    """Read kernel lines with an XID, from journalctl -o short-iso, dmesg --time-format iso, or a syslog."""
    for line in lines:
        xid = _XID.search(line)
        if xid is None:
            given.left_out["lines without an XID"] += bool(line.strip())
            continue
        before, at = line[: xid.start()], None
        if found := _ISO.match(before):
            at = given.known_time(found[1])
        elif found := _SYSLOG.match(before):
            at = _of_year(found[1], given)
        if not found or at is None:
            given.left_out["XIDs without a time of day"] += 1
            continue
        host = given.host or found[2] or given.named_host()
        severity = _XID_SEVERITY.get(xid[2], HEALTH_WARNING)
        message = f"{xid[1]}{xid[3]}"
        yield record(at, host, "gpu", f"xid_{xid[2]}", HEALTH_SAMPLE, severity, message=message)


def _of_year(text: str, given: Given) -> datetime | None:
    """Return the time in a syslog, which lacks the year: the year of the output, or the year before.

    Returns None if the date does not exist in either year.
    """
    taken = given.taken_at()
    for year in (taken.year, taken.year - 1):
        with suppress(ValueError, OverflowError):  # one of them may have no 29 February
            at = datetime.strptime(f"{year} {text}", "%Y %b %d %H:%M:%S").replace(tzinfo=given.zone)
            if at <= taken.replace(hour=23, minute=59, second=59):
                return at
    return None


def csv_rows(lines: Lines, given: Given) -> Iterator[Record]:
    """Read rows of a CSV with a header, by the mapping in the settings, [health.csv]."""
    if missing := [name for name in _COLUMNS if name not in given.columns]:
        raise SourceError(f"the settings' [health.csv] lack {', '.join(missing)}: a column, or =constant")
    try:
        rows = csv.DictReader(lines)
        yield from _csv_rows(rows, rows.fieldnames or (), given)
    except csv.Error as error:
        raise SourceError(f"no CSV: {error}") from None


def _csv_rows(rows: Iterable[dict[str, str]], heads: Sequence[str], given: Given) -> Iterator[Record]:
    for name, column in given.columns.items():
        if not column.startswith("=") and column not in heads:
            raise SourceError(f"[health.csv] {name}: no column {column!r} among {', '.join(heads)[:200]}")
    for row in rows:
        found = {name: _cell(row, column, given) for name, column in given.columns.items()}
        if any(not found[name] for name in _COLUMNS):
            given.left_out["rows without time, host, component or check"] += 1
            continue
        try:
            at = given.time_of(found["time"])
            numbers = {
                name: kind(found[name])
                for name, kind in (("index", int), ("value", _finite))
                if found.get(name)
            }
        except (SourceError, ValueError):
            given.left_out["rows with an invalid time, index or value"] += 1
            continue
        texts = {name: found.get(name) or None for name in ("unit", "message", "peer")}
        state, severity = found.get("state") or HEALTH_SAMPLE, found.get("severity") or HEALTH_WARNING
        ended = severity if state != HEALTH_ENDS else HEALTH_OK
        yield record(at, found["host"], found["component"], found["check"], state, ended, **numbers, **texts)


def _finite(text: str) -> float:
    """Return a number. Raises ValueError for other texts, and for NaN and infinities."""
    if not math.isfinite(found := float(text)):
        raise ValueError(text)
    return found


def _cell(row: dict[str, str], column: str, given: Given) -> str:
    """Return a row's value in a column, or the constant after "=", replaced if it is in `given.words`."""
    text = column[1:] if column.startswith("=") else (row.get(column) or "").strip()
    return given.words.get(text, text)
