"""Read-only tools for agents: each tool answers one question from a warehouse.

A reply is one short JSON object, safe whatever names the logs contain.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from datetime import date
from functools import wraps
from threading import Lock
from typing import Any, Concatenate, Final, ParamSpec

from mcp.server.mcpserver.exceptions import ToolError

from jobs.entry_points.command import opened
from jobs.reading.difference import CONFIDENCE, find
from jobs.reading.duckdb_reader import DuckDbReader
from jobs.reading.left_out import not_in_fix_first
from jobs.reading.limits import within_limits
from jobs.reading.scenarios import read_fix, replay_fixes
from jobs.reading.sides import by_ops, warehouse_side
from jobs.reading.unit import asked, find_unit, read_causes, read_unit
from jobs.runtime.errors import PlainError
from jobs.runtime.nearest import suggestion
from jobs.runtime.printing import shown
from jobs.runtime.settings import Settings
from jobs.runtime.terminal import printable
from schemas.causes import OF_CAUSE, OF_FLAG
from schemas.dictionary import entries, listed
from schemas.queries import QUERIES
from schemas.tables import TABLES
from schemas.views import VIEWS, drain_by
from schemas.vocabulary import Status
from udfs.errors import NothingToReplayError, PredicateError, TraceError
from udfs.what_if import SimulationSettings

MOST_CHARACTERS: Final = 8_000
"""Longest reply: an agent has to read all of it."""

_MOST_TEXT: Final = 400
"""Longest text of one value."""

_MOST_LISTED: Final = 5
"""Most entries of a list within a row."""

_ROOM: Final = 400
"""Characters reserved for saying how much was left out."""


def reply(rows: Sequence[Mapping[str, Any]], *, first: int = 0, **about: object) -> str:
    """Return one reply as JSON: the facts `about` an answer, and as many rows from `first` on as fit.

    Values that are null are left out; long texts and lists are cut, and say so.
    """
    said = {name: _short(value) for name, value in about.items() if value is not None}
    kept: list[object] = []
    size = len(shown(said)) + _ROOM
    for row in rows[first:]:
        short = {name: _short(value) for name, value in row.items() if value is not None}
        size += len(shown(short)) + 2
        if size > MOST_CHARACTERS:
            break
        kept.append(short)
    return shown(said | {"rows": kept} | _left_out(len(rows), first, len(kept)))


def _left_out(total: int, first: int, kept: int) -> dict[str, object]:
    following = first + kept
    if following >= total:
        return {"all_rows": total}
    how = (
        f"ask again with first={following}"
        if kept
        else "one row alone is too long: ask for fewer columns by the tool sql"
    )
    return {"all_rows": total, "left_out": total - following, "how_to_get_them": how}


def _short(value: object) -> object:
    """Return a value for JSON, with long texts and lists truncated."""
    if isinstance(value, str):
        return value if len(value) <= _MOST_TEXT else f"{value[:_MOST_TEXT]}... ({len(value):,} characters)"
    if isinstance(value, Mapping):
        return {str(_short(str(name))): _short(each) for name, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        short = [_short(each) for each in value[:_MOST_LISTED]]
        return (
            short if len(value) <= _MOST_LISTED else [*short, f"... and {len(value) - _MOST_LISTED:,} more"]
        )
    return float(f"{value:.6g}") if isinstance(value, float) else value


MOST_SECONDS: Final = 60
"""Longest answer, as in the command query. [s]"""

_MOST_ROWS: Final = 1_000
"""Most rows that are read; a reply holds fewer."""

_OF_JOB: Final = (
    "status", "status_detail", "slowdown", "actual_step_s", "simulated_step_s", "ideal_step_s",
    "discrepancy", "steps", "steps_dropped", "workers", "gpu_hours", "wasted_gpu_hours", "slower_than_usual",
)  # fmt: skip
_OF_CAUSE: Final = (
    "cause", "is_cause", "time_saved_fraction", "recoverable_gpu_hours", "lost_fraction", "lost_gpu_hours",
    "culprits",
)  # fmt: skip

Given = ParamSpec("Given")
_Asks = Callable[Concatenate["Tools", Given], str]


def _tool(ask: _Asks[Given]) -> _Asks[Given]:
    """Make a method a tool: run one call at a time, and return user errors to the agent."""

    @wraps(ask)
    def answered(tools: "Tools", /, *args: Given.args, **given: Given.kwargs) -> str:
        try:
            with tools.lock:
                return ask(tools, *args, **given)
        except (PlainError, PredicateError, NothingToReplayError, TraceError, ValueError) as error:
            raise ToolError(printable(str(error))) from error

    return answered


class Tools:
    """Tools that answer from the warehouse in the settings; each call reads the latest publication."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.lock = Lock()

    @property
    def all(self) -> list[Callable[..., str]]:
        """Return all tools; agents see their names and docstrings."""
        return [
            self.fix_first, self.drain, self.why_slow, self.what_if, self.diff, self.headline, self.describe,
            self.sql,
        ]  # fmt: skip

    @_tool
    def fix_first(self, first: int = 0) -> str:
        """Return what to fix first across the fleet, and the GPU-hours that each fix saves, largest first.

        A slow link is two rows, one for the host at each end, each with half of what mending the link saves;
        link_hosts names the other ends.

        first: the row to begin with, where an earlier reply left rows out.
        """
        with self._reader() as reader:
            without = within_limits(reader, lambda: not_in_fix_first(reader), MOST_SECONDS)
        return reply(self._rows("SELECT * FROM fix_first"), first=first, not_analysed=without or None)

    @_tool
    def drain(self, as_of: date | None = None, first: int = 0) -> str:
        """Return which hosts to drain now, by the GPU-hours that a drain is expected to save, less its cost.

        verdict: drain, probably, no, unknown. expected_low and expected_high are a 90 % interval; it pays if
        the host stays slow for more than break_even_days. One of together_hosts alone may save nothing: all
        save together_gpu_hours, for together_cost_gpu_hours. as_of: as if the warehouse ended with this day.
        """
        sql = drain_by(self._settings.drain.terms, as_of)
        return reply(self._rows(sql), first=first, days=self._settings.drain.days)

    @_tool
    def why_slow(self, job_id: str, run_id: str | None = None, log_date: date | None = None) -> str:
        """Return why one job is slow: slowdown, causes, culprits, time saved by fixes, reasons for doubt.

        Without run_id and log_date: its latest day. Shares are of the recorded step time; those that fixes
        save (time_saved_fraction) do not add up, those that are lost (lost_fraction) do.
        """
        with self._reader() as reader:
            unit = find_unit(reader, job_id, run_id, log_date)
            stored = read_causes(reader, unit)
        if stored is None:
            return reply([], unit=unit._asdict(), answer="not simulated yet: a night has to run first")
        status = Status(stored.job["status"])
        causes = sorted(stored.causes, key=lambda row: -row["time_saved_fraction"])
        return reply(
            [_cause(row) for row in causes],
            unit=unit._asdict(),
            job={name: stored.job.get(name) for name in _OF_JOB},
            lost_fraction=sum(row["lost_fraction"] or 0.0 for row in causes) if causes else None,
            status=None if status == Status.ANALYSED else status.words,
            what_to_do=status.advice.format(again="run the night again") or None,
        )

    @_tool
    def what_if(
        self,
        job_id: str,
        fixes: list[str],
        factor: float | None = None,
        run_id: str | None = None,
        log_date: date | None = None,
    ) -> str:
        """Replay one job with a cause or some ops fixed, and return the time saved.

        fixes: names of causes, as why_slow has them, or SQL conditions over op_type, host, rank, pp_rank,
        dp_rank, step, microbatch, model_chunk, such as "host = 'node-13'": these ops then take their ideal
        time, or `factor` times their own, where one is given.
        """
        with self._reader() as reader:
            unit = find_unit(reader, job_id, run_id, log_date)
            rows, manifest = read_unit(reader, unit)
            stored = read_causes(reader, unit)
        understood = [read_fix(each) for each in fixes]
        found = replay_fixes(rows, manifest, understood, factor, self._settings.simulation, stored)
        answers = [vars(answer) for each in found for answer in each.answers]
        step_s = {name: getattr(found[0], f"{name}_step_s") for name in ("actual", "simulated", "ideal")}
        return reply(answers, unit=unit._asdict(), step_s=step_s)

    @_tool
    def diff(self, a: str, b: str, first: int = 0) -> str:
        """Return how much longer a step of run b takes than one of run a, by cause, op type, stage and host.

        a, b: JOB or JOB/RUN, either with @DAY or @DAY..DAY, such as gpt-175b@2026-01-05. The parts of each
        kind add up to the difference.
        """
        how = SimulationSettings(**self._settings.simulation.model_dump())
        with self._reader() as reader:
            one, other = (warehouse_side(reader, asked(each), how) for each in (a, b))
            divided, why_not = by_ops(one, other)
            found = find(one.side, other.side, CONFIDENCE, divided)
        return reply(
            [asdict(part) for part in found.parts],
            first=first,
            verdict=found.verdict,
            step_s={"a": found.a.step_s, "b": found.b.step_s},
            difference_s=found.difference_s,
            relative=found.relative,
            not_by_op_type_stage_and_host=why_not or None,
            not_compared=[*one.left_out, *other.left_out] or None,
        )

    @_tool
    def headline(
        self, name: str, from_date: date | None = None, to_date: date | None = None, first: int = 0
    ) -> str:
        """Return the answer to a named query over a period; `describe` lists the names of the queries.

        Such as straggling, waste_distribution, causes, trend, hosts, coverage.
        """
        if name not in QUERIES:
            raise ValueError(f"no headline {name}: choose from {', '.join(QUERIES)}")
        query = QUERIES[name]
        return reply(self._rows(query.over(from_date, to_date)), first=first, meaning=query.meaning)

    @_tool
    def describe(self, name: str | None = None, first: int = 0) -> str:
        """Describe all tables, views and named queries; with a name, return its columns, or its SQL."""
        if name is None:
            names = [{"name": each, "kind": kind, "meaning": meaning} for each, kind, _, meaning in listed()]
            return reply(names, first=first)
        if name in TABLES:
            columns = [
                {"column": each.column, "type": each.type, "unit": each.unit or None, "meaning": each.meaning}
                for each in entries()
                if each.table == name
            ]
            return reply(columns, first=first, one_row_per=", ".join(TABLES[name].grain))
        if (file := {**VIEWS, **QUERIES}.get(name)) is None:
            raise ValueError(
                f"no table, view or named query {name}: {suggestion(name, [*TABLES, *VIEWS, *QUERIES])}"
            )
        return reply(
            [{"sql_line": line} for line in file.sql.splitlines()], first=first, meaning=file.meaning
        )

    @_tool
    def sql(self, question: str, first: int = 0) -> str:
        """Answer one SELECT of Spark's SQL over the tables and views that `describe` lists. Times are UTC.

        It cannot write, or read anything else. At most 1,000 rows are read: aggregate, or add a LIMIT.
        """
        return reply(self._rows(question), first=first)

    def _rows(self, sql: str) -> list[dict[str, Any]]:
        with self._reader() as reader:
            found = within_limits(reader, lambda: reader.ask(sql, _MOST_ROWS), MOST_SECONDS)
        return [dict(zip(found.columns, row, strict=True)) for row in found.rows]

    @contextmanager
    def _reader(self) -> Iterator[DuckDbReader]:
        """Yield a reader of the latest publication, anew in each call: a server may run for many nights."""
        with closing(DuckDbReader(opened(self._settings))) as reader:
            yield reader


def _cause(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of job_causes in words, with only the columns that a team lead needs."""
    flag = row["flag_reason"]
    doubt = None if flag is None else OF_FLAG.get(flag, flag)
    return {name: row[name] for name in _OF_CAUSE} | {
        "what_to_do": OF_CAUSE[row["cause"]].advice,
        "doubt": doubt,
    }
