"""Fuzz the readers of health events: damaged files in a landing, and damaged output of health tools."""

import gzip
import json
import random
from collections.abc import Callable
from contextlib import suppress
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow.parquet as pq

from jobs.convert_health import converted, of_day
from jobs.landing.accounts import whole_unit
from jobs.landing.files import LandedFile
from jobs.landing.formats.health import read_event
from jobs.landing.formats.rank_log_line import LineError
from jobs.landing.formats.rows import Bounds
from jobs.landing.health.known import SOURCES
from jobs.landing.health.source import Given, SourceError
from jobs.landing.read_unit import read_unit
from jobs.landing.stores import Store
from jobs.night.ingest import _source_files
from jobs.warehouse.staging import Staging
from schemas.unit import Unit
from schemas.vocabulary import REJECTS
from tests.jobs.landing.health import test_read_day, test_sources
from tests.support.examples import DAY

Mutate = Callable[[bytes, random.Random], bytes]
StoreOf = Callable[[dict[str, bytes]], Store]
MOST_EVENTS: Final = 10_000
_BOUNDS: Final = Bounds(line_bytes=5000, file_bytes=1_000_000)
_LINES: Final = [
    test_read_day.text(test_read_day.GOOD | more)
    for more in ({}, {"time": "2026-01-05T13:00:00+01:00", "state": "ends"}, {"peer": "node-8", "unit": "C"})
]
_VALUES: Final[tuple[object, ...]] = (
    *(None, True, -1, 5, 1e308, 10**30, float("nan"), "", "x", "\ud800\x1b[2J\n", [], [[]], {}, {"a": {}}),
    "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59-12:00",
)
"""Unusual values, one of which replaces a value of a JSON document."""


def read_changed_day(mutate: Mutate, store_of: StoreOf, chance: random.Random) -> None:
    """Read damaged health files of a day; fails unless each line counts in a span or becomes a reject."""
    lines = [
        mutate(line, chance).replace(b"\n", b"") if chance.random() < 0.5 else line
        for line in chance.choices(_LINES, k=6)
    ]
    packed = gzip.compress(b"\n".join(_LINES), mtime=0)
    files = {
        "health.jsonl": b"\n".join(lines),
        "health-2.jsonl.gz": mutate(packed, chance) if chance.random() < 0.5 else packed,
    }
    unit = Unit.of_day(DAY)
    landed = [LandedFile(*unit, f"log_date={DAY}/{each}", each, len(files[each])) for each in sorted(files)]
    with TemporaryDirectory(dir="/dev/shm") as folder:
        staging = Staging(folder, "run")
        account = read_unit(store_of(files), whole_unit(unit, landed, _BOUNDS), _BOUNDS, staging)
        rejects = sum(
            pq.read_table(f"{folder}/{each.table}/{each.path}", partitioning=None).num_rows
            for each in staging.close()
            if each.table == REJECTS
        )
    assert _source_files([account]).num_rows == len(files)
    assert rejects == sum(each.rejects for each in account.files)
    spans = account.health.to_pylist() if account.health is not None else []
    assert sum(span["events"] for span in spans) == sum(each.rows for each in account.files)
    by_name = {each.file.path: each for each in account.files}
    plain = by_name["health.jsonl"]
    assert plain.lines == plain.rows + plain.rejects == sum(bool(line.strip()) for line in lines)


def read_converted(tool: str, mutate: Mutate, chance: random.Random) -> None:
    """Convert damaged output of a health tool: it gives valid events, or the converter raises SourceError."""
    cases = [case for case in test_sources.CASES.values() if case[0] == tool]
    _, text, given, *_ = chance.choice(cases)
    content = _other_value(text, chance) if chance.random() < 0.5 else mutate(text.encode(), chance)
    known = Given(**given)
    with suppress(SourceError):
        found = converted(content, tool, known, MOST_EVENTS)
        for each in (*found, *of_day(found, DAY, known.left_out)):
            line = json.dumps(each, allow_nan=False).encode()
            {each["host"], each["check"]}  # a TypeError shows a value that cannot be counted
            with suppress(LineError):
                read_event(line, DAY, _BOUNDS)


def _other_value(text: str, chance: random.Random) -> bytes:
    """Return the text with one value of its JSON replaced; if it is no JSON, repeat one of its lines."""
    lines = text.splitlines()
    at = chance.randrange(len(lines))
    try:
        document = json.loads(lines[at])
    except ValueError:
        lines[at] *= chance.choice((2, 500))
        return "\n".join(lines).encode()
    holder: Any = [document]
    place: Any = 0
    while isinstance(inner := holder[place], dict | list) and inner and chance.random() < 0.85:
        holder, place = inner, chance.choice(list(inner) if isinstance(inner, dict) else range(len(inner)))
    found = chance.choice(_VALUES)
    if holder == [document]:
        document = found
    else:
        holder[place] = found
    lines[at] = json.dumps(document)
    return "\n".join(lines).encode()


TOOLS: Final = tuple(SOURCES)
