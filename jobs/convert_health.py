"""Convert other tools' reports about hosts to the format health/1, in a day's folder of a landing.

Without --landing the command prints the converted lines.
"""

import hashlib
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time
from itertools import islice
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

from jobs.landing.files import NoLandingError
from jobs.landing.health.known import SOURCES
from jobs.landing.health.source import Given, Record, SourceError
from jobs.runtime.arguments import Arguments, called, command, log_date, option
from jobs.runtime.nearest import missing_folder
from jobs.runtime.plural import plural
from jobs.runtime.settings import load_settings
from jobs.runtime.terminal import complain, say
from schemas.vocabulary import HEALTH_ENDS, HEALTH_OK, HEALTH_SAMPLE, HEALTH_STARTS, Exit

_LISTED: Final = "; ".join(f"{name}: {source.meaning}" for name, source in SOURCES.items())

_MOST_BYTES: Final = 200_000_000
"""Largest file [B], because each file is read into memory as a whole."""
_MOST_EVENTS: Final = 1_000_000
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


def _zone(text: str) -> ZoneInfo:
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # OSError: Europe names a folder of zones
        raise ValueError(f"{text!r} is not a time zone, such as Europe/Berlin") from None


def _instant(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


@command(
    "convert_health",
    option("path PATH", "files of the tool's output", Path, nargs=-1, required=True),
    option("--from TOOL", _LISTED, dest="source", choices=tuple(SOURCES), required=True),
    option("--landing DIR", "where to write; default: lines are printed", Path),
    option("--log-date DATE", "the day under which to write, such as 2026-01-05", log_date),
    option("--host HOST", "host that the output is about, if the output names none"),
    option("--time TIME", "time of the output, ISO 8601, if the output states none", _instant),
    option("--zone ZONE", "time zone of times that state none; default: UTC", _zone),
    option("--settings FILE", "settings on top of conf/"),
)
def main(args: Arguments) -> int:
    """Convert another tool's report on the health of hosts to lines of health.jsonl.

    Exits with 1 if a file is not valid output of the tool that --from names.
    """
    if (args.landing is None) != (args.log_date is None):
        raise click.UsageError("--landing and --log-date go together")
    if args.landing is not None and not args.landing.is_dir():
        raise NoLandingError(f"the landing {missing_folder(str(args.landing))}")
    mapping = load_settings(args.settings).health
    left_out: Counter[str] = Counter()
    found: list[Record] = []
    digest = hashlib.sha256()
    for path in args.path:
        given = Given(args.host, args.time, args.zone or UTC, mapping.csv, mapping.words, left_out)
        try:
            with path.open("rb") as file:
                content = file.read(_MOST_BYTES + 1)
            digest.update(content)
            found += converted(content, args.source, given, _MOST_EVENTS - len(found))
        except SourceError as error:
            complain(f"{called()}: error: {path}: {error}")
            return Exit.FAILED
    if args.landing is None:
        say(*(line.removesuffix("\n") for line in _lines(found)))
    elif kept := list(of_day(found, args.log_date, left_out)):
        # One file, replaced atomically; by the digest in its name, the same input gives the same file.
        name = f"health-{args.source}-{digest.hexdigest()[:8]}.jsonl"
        folder = args.landing / f"log_date={args.log_date}"
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = folder / f".{name}.{os.getpid()}.tmp"
        unfinished.write_text("".join(_lines(kept)), encoding="utf-8")
        say(f"written: {unfinished.replace(folder / name)}")
        hosts, checks = ({each[name] for each in kept} for name in ("host", "check"))
        say(f"{plural(len(kept), 'event')} of {plural(len(checks), 'check')} on {plural(len(hosts), 'host')}")
    else:
        say(f"nothing written: no event of {args.log_date}")
    for what, count in left_out.items():
        if count:
            complain(f"left out: {count:,} {what}")
    return Exit.DONE


def converted(content: bytes, source: str, given: Given, most: int) -> list[Record]:
    """Convert a tool's output to health/1 events. Raises SourceError for invalid or too long output.

    source : name of the tool, a key of SOURCES
    most : limit of events; more than these, like invalid output, raise SourceError
    """
    if len(content) > _MOST_BYTES:
        raise SourceError(f"more than {_MOST_BYTES / 1e6:.0f} MB: split it")
    text = content.decode("utf-8-sig", "replace").replace("\r\n", "\n")
    lines = text.split("\n")  # not splitlines: a JSON text may contain other line ends
    found = list(islice(SOURCES[source].convert(lines, given), most + 1))
    if len(found) > most:
        raise SourceError(f"more than {_MOST_EVENTS:,} events, the limit of a day's folder: split it")
    return found


def of_day(records: Sequence[Record], day: date, left_out: Counter[str]) -> Iterator[Record]:
    """Yield the events of a day; an event that began earlier and has not ended gets the time 0:00 of the day.

    left_out : counts the events that are not yielded
    """
    midnight = datetime.combine(day, time(), UTC)
    ended: dict[tuple[object, ...], tuple[datetime, int]] = {}
    for place, each in enumerate(records):
        at = datetime.fromisoformat(each["time"])
        has_passed = each["state"] == HEALTH_SAMPLE and each["severity"] == HEALTH_OK
        if at < midnight and (has_passed or each["state"] == HEALTH_ENDS):
            ended[_check(each)] = max((at, place), ended.get(_check(each), (at, place)))
    for place, each in enumerate(records):
        at = datetime.fromisoformat(each["time"])
        is_last = (at, place) > ended.get(_check(each), (_NEVER, 0))
        is_open = each["state"] == HEALTH_STARTS and at < midnight and is_last
        if at.date() == day:
            yield each
        elif is_open:
            said = " ".join(filter(None, (each.get("message"), f"(since {each['time']})")))
            yield each | {"time": midnight.isoformat(), "message": said}
        else:
            left_out["events of other days"] += 1


def _check(each: Record) -> tuple[object, ...]:
    return tuple(each.get(name) for name in ("host", "component", "index", "check", "peer"))


def _lines(records: Iterable[Record]) -> Iterator[str]:
    return (
        json.dumps(each, allow_nan=False) + "\n" for each in sorted(records, key=lambda each: each["time"])
    )


if __name__ == "__main__":
    sys.exit(main())
