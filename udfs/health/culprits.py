"""Culprits of causes on known hosts, and the time at which each became slow.

Equations: udfs/README.md, "Health of hosts".
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from schemas.vocabulary import CULPRIT_COURSES, UNIT_KEY

_ALWAYS, _FROM = CULPRIT_COURSES[:2]
_REACHES: Final = ("worker", "host", "link")
"""Culprits with these reaches have hosts of their own; a stage or a rack is only spread over hosts."""

HostDay = tuple[str, date]
Row = Mapping[str, Any]


class Culprit(NamedTuple):
    """One culprit of a cause, and the time at which it became slow.

    number : its place among the culprits of its cause
    host : set if the culprit is one host
    first_day : first of the consecutive replayed days on which these hosts are a culprit of this cause; a
        culprit that becomes slow during a day begins on this day
    slow_from : time at which it was first slow on first_day
    is_always : whether it was slow on first_day from the first recorded step to the last
    """

    unit: tuple[Any, ...]
    cause: str
    number: int
    host: str | None
    hosts: frozenset[str]
    first_day: date
    slow_from: datetime
    is_always: bool


class _Onset(NamedTuple):
    """Time at which a culprit first became slow on a day, and in which pattern it was slow from then on."""

    slow_from: datetime
    course: str


class Named:
    """Culprits of all causes that the diagnosis names (`is_cause`), by day.

    causes : the table job_causes; its rows without culprits show on which days a run was replayed
    """

    def __init__(self, causes: pa.Table) -> None:
        self._replayed: defaultdict[tuple[Any, ...], list[date]] = defaultdict(list)
        for unit in causes.select(UNIT_KEY).group_by(UNIT_KEY).aggregate([]).to_pylist():
            self._replayed[unit["job_id"], unit["run_id"]].append(unit["log_date"])
        held = causes.filter(
            pc.and_(causes["is_cause"], pc.greater(pc.list_value_length(causes["culprits"]), 0))
        )
        self._rows: defaultdict[date, list[Row]] = defaultdict(list)
        self._onsets: dict[tuple[Any, ...], dict[frozenset[str], list[_Onset]]] = {}
        for row in held.select([*UNIT_KEY, "cause", "culprits"]).to_pylist():
            self._rows[row["log_date"]].append(row)
            of_cause = self._onsets.setdefault(_key(row, row["log_date"]), {})
            for each in row["culprits"]:
                of_cause.setdefault(_hosts(each), []).extend(_onsets(each))

    @property
    def hosts(self) -> frozenset[str]:
        """Hosts of all culprits on all days."""
        return frozenset().union(*(hosts for each in self._onsets.values() for hosts in each))

    def slow(self, days: list[date]) -> set[HostDay]:
        """Return the pairs of host and day for all hosts of culprits on the given days."""
        return {
            (host, day)
            for day in days
            for row in self._rows.get(day, ())
            for each in row["culprits"]
            for host in _hosts(each)
        }

    def on(self, day: date, earliest: date) -> Iterator[Culprit]:
        """Yield the culprits of a day whose hosts are known, each with the time at which it became slow.

        earliest : culprits that were slow on this day are left out: they may have been slow before it
        """
        for row in self._rows.get(day, ()):
            for number, each in enumerate(row["culprits"]):
                hosts = _hosts(each)
                first_day, onset = self._beginning(row, each, earliest)
                if hosts and onset is not None and first_day > earliest:
                    unit = tuple(row[name] for name in UNIT_KEY)
                    host = each["slow_host"] or each["host"]
                    facts = unit, row["cause"], number, host, hosts, first_day
                    yield Culprit(*facts, onset.slow_from, onset.course == _ALWAYS)

    def _beginning(self, row: Row, culprit: Row, earliest: date) -> tuple[date, _Onset | None]:
        """Return the first of the consecutive days with this culprit, and its onset then; None if unknown.

        Days on which the run was not replayed are skipped.
        """
        first_day, onset = row["log_date"], min(_onsets(culprit), default=None)
        replayed = self._replayed[row["job_id"], row["run_id"]]
        for day in sorted((day for day in replayed if earliest <= day < first_day), reverse=True):
            onsets = self._onsets.get(_key(row, day), {}).get(_hosts(culprit))
            is_new = onset is not None and onset.course == _FROM
            if onsets is None or is_new:
                break
            first_day, onset = day, min(onsets, default=None)
        return first_day, onset


def _onsets(culprit: Row) -> Iterator[_Onset]:
    if culprit["first_time"] is not None:
        yield _Onset(culprit["first_time"], culprit["course"])


def _key(row: Row, day: date) -> tuple[Any, ...]:
    """Return the key under which onsets of a row's cause on the given day are stored."""
    return day, row["job_id"], row["run_id"], row["cause"]


def _hosts(culprit: Row) -> frozenset[str]:
    """Return the hosts of a culprit; none if the culprit is neither a host nor workers of known hosts."""
    if culprit["reach"] not in _REACHES:
        return frozenset()
    held = [worker["host"] for worker in culprit["workers"] or ()]
    return frozenset(filter(None, (culprit["slow_host"], culprit["host"], *held)))
