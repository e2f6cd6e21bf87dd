"""Spans of health beside culprits, and whether they explain them: the table cause_evidence.

Equations: udfs/README.md, "Health of hosts".
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from schemas.health_tables import CAUSE_EVIDENCE, EXPLAINS_CHANCE, LEAST_LIFT, MOST_WORSE, WITH_IT_S
from schemas.vocabulary import CULPRIT_COURSES, HEALTH_OK, UNIT_KEY

_ALWAYS: Final = CULPRIT_COURSES[0]
_REACHES: Final = ("worker", "host", "link")
"""Culprits of these are on hosts that are known to be theirs; a stage or a rack only has hosts."""
_LINKS: Final = ("nic", "link")
"""Components whose spans also count at the other end."""
_KEY: Final = ("host", "component", "device", "check_name", "peer")
_DAY_S: Final = 86_400.0
_TOLERANCE: Final = timedelta(seconds=WITH_IT_S)

HostDay = tuple[str, date]
Kind = tuple[str, str]
"""Component and name of a check."""
Row = Mapping[str, Any]
Seen = tuple[Any, ...]
"""Day, and the key of a check."""


class _Culprit(NamedTuple):
    """A culprit with times. number : its place among those of its cause; host : where it is one."""

    unit: tuple[Any, ...]
    cause: str
    number: int
    host: str | None
    hosts: frozenset[str]
    slow_from: datetime
    is_always: bool


class _Rate(NamedTuple):
    """How often a check fails on host-days that are slow and on others, and on hosts that never are slow.

    lasting : hosts on which it fails on several days
    """

    slow: int
    slow_with: int
    other: int
    other_with: int
    hosts: int
    hosts_with: int
    spans_a_day: float
    lasting: frozenset[str]

    @property
    def lift(self) -> float:
        return _share(self.slow_with, self.slow) / _share(self.other_with, self.other)

    def as_rare(self, all_: Iterable["_Rate"], *, is_lasting: bool) -> float:
        """How many spans of checks that fail as rarely, or more rarely, a host has by chance on a day.

        Of one that goes on for days, hosts count and not host-days: that is one coincidence, however long.
        """
        by_day = sum(each.other_with for each in all_ if each.other_with <= self.other_with)
        by_host = sum(each.hosts_with for each in all_ if each.hosts_with <= self.hosts_with)
        daily = _share(by_day, self.other)
        return max(daily, _share(by_host, self.hosts)) if is_lasting else daily


def cause_evidence(
    health: pa.Table, causes: pa.Table, hosts: pa.Table, log_dates: Iterable[date], days: int
) -> pa.Table:
    """Rows of cause_evidence of these days, from tables of these days and of the `days` before each.

    health : host_health;  causes : job_causes;  hosts : host_day
    """
    is_ok = pc.equal(health["severity"], HEALTH_OK)
    failing = health.filter(pc.invert(is_ok))
    of_open = failing.filter(failing["is_open"]).select(_KEY)
    passed = health.filter(is_ok).select([*_KEY, "log_date", "first_at"])
    passed = passed.join(of_open, list(_KEY), join_type="left semi")
    passed_at = {_seen(row): row["first_at"] for row in passed.to_pylist()}
    failed = failing.to_pylist()
    held = causes.filter(pc.and_(causes["is_cause"], pc.greater(pc.list_value_length(causes["culprits"]), 0)))
    named = held.select([*UNIT_KEY, "cause", "culprits"]).to_pylist()
    trained = set(zip(hosts["host"].to_pylist(), hosts["log_date"].to_pylist(), strict=True))
    found: list[Row] = []
    for day in sorted(set(log_dates)):
        first = day - timedelta(days=days)
        spans = [span for span in failed if first <= span["log_date"] <= day]
        rows = [row for row in named if first <= row["log_date"] <= day]
        on_day = _on_day(day, spans, passed_at)
        found += _of_day(day, on_day, spans, rows, {each for each in trained if first <= each[1] <= day})
    return pa.Table.from_pylist(found, CAUSE_EVIDENCE.arrow_schema)


def _seen(row: Row) -> Seen:
    return row["log_date"], *(row[name] for name in _KEY)


def _of_day(
    day: date, on_day: Iterable[Row], spans: Sequence[Row], rows: Sequence[Row], trained: set[HostDay]
) -> Iterator[Row]:
    beside: defaultdict[str, list[Row]] = defaultdict(list)
    for span in on_day:
        beside[span["host"]].append(span)
        if span["peer"] and span["component"] in _LINKS:
            beside[span["peer"]].append(span)
    slow = {(host, row["log_date"]) for row in rows for each in row["culprits"] for host in _hosts(each)}
    rates = _rates(spans, slow, trained | slow)
    for culprit in _culprits(row for row in rows if row["log_date"] == day):
        yield from _beside(culprit, beside, rates, day)


def _on_day(day: date, spans: Sequence[Row], passed_at: Mapping[Seen, datetime]) -> Iterator[Row]:
    """Spans of a day, and those that were open at the end of the day before and did not fail since.

    passed_at : when a check was first seen to pass on a day; then an open span of the day before has ended
    """
    failed = {_seen(span) for span in spans if span["log_date"] == day}
    for span in spans:
        if span["log_date"] == day:
            yield span
        elif span["is_open"] and span["log_date"] == day - timedelta(days=1):
            seen = _seen({**span, "log_date": day})
            if seen not in failed:
                ended = passed_at.get(seen)
                yield span if ended is None else {**span, "is_open": False, "last_at": ended}


def _hosts(culprit: Row) -> frozenset[str]:
    """Hosts that are known to be a culprit's."""
    if culprit["reach"] not in _REACHES:
        return frozenset()
    held = [worker["host"] for worker in culprit["workers"] or ()]
    return frozenset(filter(None, (culprit["slow_host"], culprit["host"], *held)))


def _culprits(rows: Iterable[Row]) -> Iterator[_Culprit]:
    for row in rows:
        for number, each in enumerate(row["culprits"]):
            hosts, slow_from = _hosts(each), each["first_time"]
            if hosts and slow_from is not None:
                host = each["slow_host"] or each["host"]
                unit = tuple(row[name] for name in UNIT_KEY)
                is_always = each["course"] == _ALWAYS
                yield _Culprit(unit, row["cause"], number, host, hosts, slow_from, is_always)


def _rates(spans: Sequence[Row], slow: set[HostDay], trained: set[HostDay]) -> dict[Kind, _Rate]:
    """How often each check fails beside slow hosts and beside others."""
    failing: defaultdict[Kind, defaultdict[HostDay, int]] = defaultdict(lambda: defaultdict(int))
    for span in spans:
        failing[span["component"], span["check_name"]][span["host"], span["log_date"]] += 1
    others = trained - slow
    names = {host for host, _ in trained} - {host for host, _ in slow}
    found = {}
    for kind, by_host in failing.items():
        with_it = by_host.keys() & trained
        hosts_with = {host for host, _ in with_it} & names
        a_day = sum(by_host.values()) / len(by_host)
        days = Counter(host for host, _ in by_host)
        lasting = frozenset(host for host, number in days.items() if number > 1)
        counts = len(slow), len(with_it & slow), len(others), len(with_it & others)
        found[kind] = _Rate(*counts, len(names), len(hosts_with), a_day, lasting)
    return found


def _beside(
    culprit: _Culprit, beside: Mapping[str, Sequence[Row]], rates: Mapping[Kind, _Rate], day: date
) -> Iterator[Row]:
    """Spans beside a culprit; those that explain it are known once all are."""
    midnight = datetime.combine(day, time(), UTC)
    spans = {id(span): span for host in culprit.hosts for span in beside.get(host, ())}
    rows = []
    for span in spans.values():
        begin = min(span["first_at"], midnight) if span["began_before"] else span["first_at"]
        goes_on = span["is_open"] or span["last_at"] >= culprit.slow_from - _TOLERANCE
        if begin <= culprit.slow_from + _TOLERANCE and goes_on:
            lead_s = (culprit.slow_from - begin).total_seconds()
            rows.append(_row(culprit, span, rates, lead_s))
    least = min((row["chance"] for row in rows), default=0.0)
    for row in rows:
        is_rare = row["chance"] <= EXPLAINS_CHANCE and row["lift"] >= LEAST_LIFT
        yield row | {"explains": is_rare and row["chance"] <= MOST_WORSE * least}


def _row(culprit: _Culprit, span: Row, rates: Mapping[Kind, _Rate], lead_s: float) -> dict[str, Any]:
    rate = rates[span["component"], span["check_name"]]
    is_lasting = span["began_before"] or span["host"] in rate.lasting
    near = 1.0
    if not culprit.is_always:
        near = min(1.0, rate.spans_a_day * (max(lead_s, 0.0) + 2 * WITH_IT_S) / _DAY_S)
    by_chance = rate.as_rare(rates.values(), is_lasting=is_lasting)
    return {
        **dict(zip(UNIT_KEY, culprit.unit, strict=True)),
        "cause": culprit.cause,
        "culprit": culprit.number,
        "culprit_host": culprit.host,
        **{name: span[name] for name in CAUSE_EVIDENCE.column_names if name in span and name != "log_date"},
        "slow_from": culprit.slow_from,
        "lead_s": lead_s,
        "slow_host_days": rate.slow,
        "slow_host_days_with": rate.slow_with,
        "other_host_days": rate.other,
        "other_host_days_with": rate.other_with,
        "lift": rate.lift,
        "chance": min(1.0, near * by_chance),
    }


def _share(part: int, whole: int) -> float:
    return (part + 0.5) / (whole + 1)
