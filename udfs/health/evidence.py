"""The table cause_evidence: failed health checks near culprits, and whether they explain the slowness.

Equations: udfs/README.md, "Health of hosts".
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from schemas.health_tables import CAUSE_EVIDENCE, EXPLAINS_CHANCE, LEAST_LIFT, MOST_WORSE, WITH_IT_S
from schemas.vocabulary import HEALTH_OK, UNIT_KEY
from udfs.health.culprits import Culprit, HostDay, Named, Row

_LINKS: Final = ("nic", "link")
"""Components whose failures also count for the host at the other end, the peer."""
_KEY: Final = ("host", "component", "device", "check_name", "peer")
_READ: Final = (*_KEY, "log_date", "severity", "first_at", "last_at", "began_before", "is_open")
_COUNTED: Final = ["component", "check_name", "host", "log_date"]
_RATES: Final = """
    WITH served AS (SELECT host, log_date FROM trained UNION SELECT host, log_date FROM slow),
    steady AS (SELECT host FROM served EXCEPT SELECT host FROM slow),
    days AS (
        SELECT
            (SELECT count(*) FROM slow) AS slow,
            (SELECT count(*) FROM served) - (SELECT count(*) FROM slow) AS other,
            (SELECT count(*) FROM steady) AS hosts
    ),
    kinds AS (
        SELECT
            component,
            check_name,
            count(slow.host) AS slow_with,
            count(served.host) - slow_with AS other_with,
            count(DISTINCT steady.host) AS hosts_with,
            sum(count_all) / count(*) AS spans_a_day
        FROM failing
        LEFT JOIN served USING (host, log_date)
        LEFT JOIN slow USING (host, log_date)
        LEFT JOIN steady ON steady.host = served.host
        GROUP BY ALL
    )
    SELECT
        component, check_name, slow, slow_with, other, other_with, hosts, spans_a_day,
        sum(other_with) OVER (ORDER BY other_with RANGE UNBOUNDED PRECEDING)::BIGINT,
        sum(hosts_with) OVER (ORDER BY hosts_with RANGE UNBOUNDED PRECEDING)::BIGINT
    FROM kinds, days"""
_LASTING: Final = """
    SELECT component, check_name, host FROM failing SEMI JOIN near USING (host)
    GROUP BY ALL HAVING count(*) > 1"""
_DAY_S: Final = 86_400.0
_TOLERANCE: Final = timedelta(seconds=WITH_IT_S)

Kind = tuple[str, str]
"""Component and name of a check."""
Seen = tuple[Any, ...]
"""Day, and the key of a check."""


class _Rate(NamedTuple):
    """How often a check fails on a slow host in a day, and on any other host.

    slow, other : host-days with a slow host, and all other host-days
    slow_with, other_with : those of them on which the check failed
    hosts       : hosts that are never slow
    spans_a_day : failures a day on a host on which the check failed on this day
    rare_days   : sum of other_with over all checks whose other_with is at most that of this check
    rare_hosts  : the same sum, of never slow hosts on which a check failed
    """

    slow: int
    slow_with: int
    other: int
    other_with: int
    hosts: int
    spans_a_day: float
    rare_days: int
    rare_hosts: int

    @property
    def lift(self) -> float:
        return _share(self.slow_with, self.slow) / _share(self.other_with, self.other)

    def by_chance(self, *, is_lasting: bool) -> float:
        """Return how many checks, of those at most as frequent as this one, fail on a healthy host per day.

        A failure that lasts for days is one coincidence, so that hosts are counted too, not only host-days.
        """
        daily = _share(self.rare_days, self.other)
        return max(daily, _share(self.rare_hosts, self.hosts)) if is_lasting else daily


class _Health(NamedTuple):
    """Health checks of one day: failures by check and host, and failures near the hosts of culprits."""

    counted: pa.Table
    spans: pa.Table


class _Failures(NamedTuple):
    """Rates of failure by check in the days that are compared, and checks that fail on a host for days."""

    rates: Mapping[Kind, _Rate]
    lasting: frozenset[tuple[str, str, str]]


def cause_evidence(
    health: Callable[[date], pa.Table],
    causes: pa.Table,
    hosts: pa.Table,
    log_dates: Iterable[date],
    days: int,
) -> pa.Table:
    """Return the rows of cause_evidence for the given days.

    health : function that returns the rows of host_health of one day, so that only few days are in memory
    causes, hosts : the tables job_causes and host_day of these days and of the `days` days before each
    """
    named = Named(causes)
    ever = pa.array(sorted(named.hosts), pa.string())
    known: dict[date, _Health] = {}
    found: list[Row] = []
    for day in sorted(set(log_dates)):
        window = [day - timedelta(days=age) for age in range(days, -1, -1)]
        culprits = list(named.on(day, window[0]))
        if not culprits:
            continue
        for each in window:
            if each not in known:
                read = health(each)
                failed = read.filter(pc.not_equal(read["severity"], HEALTH_OK))
                by_host = failed.group_by(_COUNTED).aggregate([([], "count_all")])
                known[each] = _Health(by_host, _near(read, ever).select(_READ))
        known = {each: known[each] for each in window}
        trained = hosts.filter(
            pc.and_(pc.greater_equal(hosts["log_date"], window[0]), pc.less_equal(hosts["log_date"], day))
        )
        counted = pa.concat_tables(each.counted for each in known.values())
        beside = pa.array(sorted(frozenset().union(*(each.hosts for each in culprits))))
        failures = _failures(counted, named.slow(window), trained, beside)
        for first_day in sorted({each.first_day for each in culprits}):
            before = known[first_day - timedelta(days=1)]
            spans = _near(pa.concat_tables([before.spans, known[first_day].spans]), beside).to_pylist()
            since = [each for each in culprits if each.first_day == first_day]
            found += _of_day(_on_day(first_day, spans), since, failures)
    return pa.Table.from_pylist(found, CAUSE_EVIDENCE.arrow_schema)


def _near(spans: pa.Table, hosts: pa.Array) -> pa.Table:
    return spans.filter(pc.or_(pc.is_in(spans["host"], hosts), pc.is_in(spans["peer"], hosts)))


def _failures(failing: pa.Table, slow: Collection[HostDay], trained: pa.Table, beside: pa.Array) -> _Failures:
    """Return how often each check fails on slow hosts, and how often on other hosts.

    failing : number of failures of each check on each host and day;  trained : host-days
    beside  : hosts for which the result names the checks that failed on several days
    """
    names = ["host", "log_date"]
    with duckdb.connect(":memory:") as connection:
        connection.register("failing", failing)
        connection.register("trained", trained.select(names))
        connection.register("slow", pa.table([*map(pa.array, zip(*sorted(slow), strict=True))], names))
        connection.register("near", pa.table([beside], ["host"]))
        rates = {row[:2]: _Rate(*row[2:]) for row in connection.execute(_RATES).fetchall()}
        return _Failures(rates, frozenset(connection.execute(_LASTING).fetchall()))


def _seen(row: Row) -> Seen:
    return row["log_date"], *(row[name] for name in _KEY)


def _of_day(on_day: Iterable[Row], culprits: Iterable[Culprit], failures: _Failures) -> Iterator[Row]:
    """Yield a row for each failure near a culprit, and mark those that explain why the culprit is slow."""
    beside: defaultdict[str, list[Row]] = defaultdict(list)
    for span in on_day:
        beside[span["host"]].append(span)
        if span["peer"] and span["component"] in _LINKS:
            beside[span["peer"]].append(span)
    for culprit in culprits:
        midnight = datetime.combine(culprit.first_day, time(), UTC)
        spans = {id(span): span for host in culprit.hosts for span in beside.get(host, ())}
        rows = []
        for span in spans.values():
            begin = min(span["first_at"], midnight) if span["began_before"] else span["first_at"]
            goes_on = span["is_open"] or span["last_at"] >= culprit.slow_from - _TOLERANCE
            if begin <= culprit.slow_from + _TOLERANCE and goes_on:
                lead_s = (culprit.slow_from - begin).total_seconds()
                rows.append(_row(culprit, span, failures, lead_s))
        least = min((row["chance"] for row in rows), default=0.0)
        for row in rows:
            is_rare = row["chance"] <= EXPLAINS_CHANCE and row["lift"] >= LEAST_LIFT
            yield row | {"explains": is_rare and row["chance"] <= MOST_WORSE * least}


def _on_day(day: date, spans: Sequence[Row]) -> Iterator[Row]:
    """Yield the failures of a day, and open failures of the day before whose check does not fail on the day.

    If the check of an open failure passed on the day, the failure ends when the check passed.
    """
    failing = [span for span in spans if span["severity"] != HEALTH_OK]
    passed_at = {_seen(span): span["first_at"] for span in spans if span["severity"] == HEALTH_OK}
    failed = {_seen(span) for span in failing if span["log_date"] == day}
    for span in failing:
        if span["log_date"] == day:
            yield span
        elif span["is_open"]:
            seen = _seen({**span, "log_date": day})
            if seen not in failed:
                ended = passed_at.get(seen)
                yield span if ended is None else {**span, "is_open": False, "last_at": ended}


def _row(culprit: Culprit, span: Row, failures: _Failures, lead_s: float) -> dict[str, Any]:
    kind = span["component"], span["check_name"]
    rate = failures.rates[kind]
    is_lasting = span["began_before"] or (*kind, span["host"]) in failures.lasting
    near = 1.0
    if not culprit.is_always:
        near = min(1.0, rate.spans_a_day * (max(lead_s, 0.0) + 2 * WITH_IT_S) / _DAY_S)
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
        "chance": min(1.0, near * rate.by_chance(is_lasting=is_lasting)),
    }


def _share(part: int, whole: int) -> float:
    return (part + 0.5) / (whole + 1)
