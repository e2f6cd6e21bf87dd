"""Read-only tools for agents: each tool answers one question from a warehouse.

A reply is one JSON object of at most MOST_CHARACTERS, in which invisible characters of names are escaped.
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
"""Most characters of a reply, because an agent has to read all of them."""

_MOST_TEXT: Final = 400
"""Most characters of one text in a reply."""

_MOST_LISTED: Final = 5
"""Most entries of one list in a row of a reply."""

_ROOM: Final = 400
"""Characters of a reply that are reserved for the number of rows left out and how to get them."""


def reply(rows: Sequence[Mapping[str, Any]], *, first: int = 0, **about: object) -> str:
    """Return `about` and the rows from number `first` on as JSON, as many rows as MOST_CHARACTERS allow.

    Null values are left out. A cut text ends with its full length, a cut list with the number of entries left
    out.
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
    said |= {"rows": kept, "all_rows": len(rows)}
    following = first + len(kept)
    if following < len(rows):
        again = f"ask again with first={following}"
        too_long = "one row alone is too long: ask for fewer columns by the tool sql"
        said |= {"left_out": len(rows) - following, "how_to_get_them": again if kept else too_long}
    return shown(said)


def _short(value: object) -> object:
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
"""Most time that a query may take, the same as the default of `straggler query`. [s]"""

_MOST_ROWS: Final = 1_000
"""Most rows that a query fetches; a reply may have room for fewer."""

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
    """Wrap a method as a tool: calls run one at a time; errors that an agent can mend become ToolError."""

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
        """Return what to fix first in the fleet: causes, with the GPU-hours lost and saved by their fixes.

        A slow link has two rows, one for the host at each end. Each row has half of the GPU-hours that
        mending the link saves, and names the host at the other end in link_hosts.

        first: number of the first row to return, from 0; a reply that leaves out rows says how to go on.
        """
        with self._reader() as reader:
            without = within_limits(reader, lambda: not_in_fix_first(reader), MOST_SECONDS)
        return reply(self._rows("SELECT * FROM fix_first"), first=first, not_analysed=without or None)

    @_tool
    def drain(self, as_of: date | None = None, first: int = 0) -> str:
        """Return which hosts to drain now, by the GPU-hours that a drain is expected to save, less its cost.

        verdict is drain, probably, no or unknown. expected_low to expected_high is the 90 % interval of
        expected_gpu_hours. A drain pays if the host stays slow for more than break_even_days. Draining one of
        together_hosts alone may save nothing; draining all of them saves together_gpu_hours and costs
        together_cost_gpu_hours. as_of: a day; all later days are ignored.
        """
        sql = drain_by(self._settings.drain.terms, as_of)
        return reply(self._rows(sql), first=first, days=self._settings.drain.days)

    @_tool
    def why_slow(self, job_id: str, run_id: str | None = None, log_date: date | None = None) -> str:
        """Return why a job is slow: slowdown, causes, slow workers, savings of fixes, uncertainties.

        run_id, log_date: without them, the job's run on its latest day. Fractions are of the recorded step
        time. The time lost to causes (lost_fraction) adds up over causes; the time that single fixes save
        (time_saved_fraction) does not.
        """
        with self._reader() as reader:
            unit = find_unit(reader, job_id, run_id, log_date)
            stored = read_causes(reader, unit)
        if stored is None:
            return reply([], unit=unit._asdict(), answer="not simulated yet: a night has to run first")
        status = Status(stored.job["status"])
        causes = sorted(stored.causes, key=lambda row: -row["time_saved_fraction"])
        return reply(
            [
                {name: row[name] for name in _OF_CAUSE}
                | {
                    "what_to_do": OF_CAUSE[row["cause"]].advice,
                    "doubt": OF_FLAG.get(row["flag_reason"], row["flag_reason"]),
                }
                for row in causes
            ],
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

        fixes: names of causes, as in why_slow, or SQL conditions over op_type, host, rank, pp_rank, dp_rank,
        step, microbatch, model_chunk, such as "host = 'node-13'". Ops that match a condition take their ideal
        time, or `factor` times their recorded time if a factor is given.
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

        a, b: JOB or JOB/RUN, each also with @DAY or @DAY..DAY, such as gpt-175b@2026-01-05. The parts of one
        kind, such as all causes, add up to the difference.
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

        Examples of names are straggling, waste_distribution, causes, trend, hosts and coverage.
        """
        if name not in QUERIES:
            raise ValueError(f"no headline {name}: choose from {', '.join(QUERIES)}")
        query = QUERIES[name]
        return reply(self._rows(query.over(from_date, to_date)), first=first, meaning=query.meaning)

    @_tool
    def describe(self, name: str | None = None, first: int = 0) -> str:
        """List all tables, views and named queries; with a name, the columns of a table or the SQL."""
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

        The SELECT cannot write, and cannot read anything else. Only the first 1,000 rows of its answer are
        fetched: aggregate, or add a LIMIT.
        """
        return reply(self._rows(question), first=first)

    def _rows(self, sql: str) -> list[dict[str, Any]]:
        with self._reader() as reader:
            found = within_limits(reader, lambda: reader.ask(sql, _MOST_ROWS), MOST_SECONDS)
        return [dict(zip(found.columns, row, strict=True)) for row in found.rows]

    @contextmanager
    def _reader(self) -> Iterator[DuckDbReader]:
        """Yield a reader of the publication that is the latest now, as nights may publish between calls."""
        with closing(DuckDbReader(opened(self._settings))) as reader:
            yield reader
