"""Analyse one run as a night does, without Spark or a warehouse.

Where that is not possible, say in words why: files from which nothing was read, a missing manifest.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from itertools import combinations
from math import prod
from typing import Final, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobs.landing.files import MANIFEST
from jobs.landing.formats.rows import Bounds
from jobs.landing.one_run import ReadRun, Run, read_run
from jobs.reading.database import create_views
from jobs.report.crop import crop_of
from jobs.report.read import rejects_of, sorted_by
from jobs.report.rows import Row, UnitTables
from jobs.runtime.plural import plural
from jobs.runtime.settings import load_settings
from schemas import vocabulary as words
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import Reason, Status
from udfs.simulate.implausible import T0_IN_S
from udfs.simulate.run_course import in_order
from udfs.simulate.unit_batches import SIMULATED_COLUMNS, UnitRows, simulate_unit
from udfs.what_if import SimulationSettings

SHIPPED: Final = "base"
"""The project's own settings: limits on files, and the ideal of the simulation."""
_JOB: Final = "job_days"
_WATERFALL: Final = "waterfall"
_DAY_US: Final = 86_400_000_000
_MOST_FILES: Final = 5
"""Most files that are named."""
_RANKS: Final = {"dp_size": "dp_rank", "pp_size": "pp_rank", "tp_size": "tp_rank", "cp_size": "cp_rank"}
"""Sizes, and the column of rank_steps that shows each."""


class Analysis(NamedTuple):
    """Results of analysing one run.

    tables : as its page takes them
    results : result tables as the night publishes them, but for what other jobs and days would revise
    """

    unit: Unit
    read: ReadRun
    tables: UnitTables
    results: dict[str, pa.Table]


def analysis(run: Run) -> Analysis:
    """Read, simulate and diagnose a run; a defect of its logs becomes its status."""
    settings = load_settings(SHIPPED)
    return analysed(run.unit, read_run(run, Bounds(**settings.landing.model_dump())), has_day=run.has_day)


def analysed(unit: Unit, read: ReadRun, *, has_day: bool) -> Analysis:
    """Simulate and diagnose a run that has been read.

    has_day : whether the log date is known; else it is that of recorded_day
    """
    settings = load_settings(SHIPPED)
    if not has_day:
        unit = unit._replace(log_date=recorded_day(read.rows) or unit.log_date)
    manifest = dict(read.account.job or {})
    if read.events.num_rows:
        manifest["events"] = in_order(read.events).to_pylist()
    rows = UnitRows(unit, manifest, read.rows.select(SIMULATED_COLUMNS), has_day=has_day)
    found = simulate_unit(rows, SimulationSettings(**settings.simulation.model_dump()))
    results = {name: _of_unit(name, table, unit) for name, table in found.items()}
    jobs = pa.Table.from_pylist([unit._asdict() | manifest], TABLES[words.JOBS].arrow_schema)
    tables = _unit_tables(results, jobs, _of_unit(words.REJECTS, read.rejects, unit))
    return Analysis(unit, read, replace(tables, crop=_cropped(tables, read.rows)), results)


def _cropped(tables: UnitTables, rows: pa.Table) -> list[Row]:
    """Return the recorded rows that the timeline on the run's page is drawn from."""
    crop = crop_of(tables)
    if crop is None:
        return []
    are_its = pc.field("rank").isin([crop.culprit["rank"], crop.peer["rank"]])
    are_drawn = are_its & pc.field("step").isin([crop.slow_step, crop.usual_step])
    return _rows(rows.select(["rank", "step", "op", "start_us", "duration_us"]).filter(are_drawn))


def recorded_day(rows: pa.Table) -> date | None:
    """Return the UTC date of the first line whose t0_us can be a time since 1970; None if all lack one."""
    earliest, latest = (round(each * 1e6) for each in T0_IN_S)
    t0_us = rows["t0_us"]
    is_time = pc.and_(pc.greater_equal(t0_us, earliest), pc.less(t0_us, latest))
    first_us = pc.min(t0_us.filter(is_time)).as_py()
    return None if first_us is None else datetime.fromtimestamp(first_us / 1e6, UTC).date()


def _of_unit(name: str, rows: pa.Table, unit: Unit) -> pa.Table:
    """Return rows of a result table with the unit's key added."""
    schema = TABLES[name].arrow_schema
    for column, value in zip(words.UNIT_KEY, unit, strict=True):
        if column not in rows.column_names:
            rows = rows.append_column(column, pa.repeat(pa.scalar(value), rows.num_rows))
    return rows.select(schema.names).cast(schema)


def _unit_tables(results: dict[str, pa.Table], jobs: pa.Table, rejects: pa.Table) -> UnitTables:
    with duckdb.connect(":memory:") as connection:
        connection.register(words.JOBS, jobs)
        connection.register(words.JOB_SLOWDOWN, results[words.JOB_SLOWDOWN])
        connection.register(words.JOB_CAUSES, results[words.JOB_CAUSES])
        connection.register(words.JOB_TIME, results[words.JOB_TIME])
        connection.register(words.REJECTS, rejects)
        create_views(connection, [_JOB, _WATERFALL])
        (job,) = _rows(connection.sql(f"FROM {_JOB}").to_arrow_table())
        waterfall = _rows(connection.sql(f"FROM {_WATERFALL}").to_arrow_table(), "place")
        rejected = _rows(connection.sql(rejects_of("true")).to_arrow_table())
    return UnitTables(
        job=job,
        workers=_rows(results[words.WORKER_SLOWDOWN], "dp_rank", "pp_rank"),
        steps=_rows(results[words.STEP_SLOWDOWN], "step"),
        op_types=_rows(results[words.OP_TYPE_SLOWDOWN], "op_type"),
        causes=_rows(results[words.JOB_CAUSES], "cause"),
        further={
            name: _rows(results[name], *TABLES[name].grain[len(words.UNIT_KEY) :])
            for name in words.FURTHER_TABLES
        },
        rejects=rejected,
        waterfall=waterfall,
    )


def _rows(table: pa.Table, *order: str) -> list[Row]:
    rows: list[Row] = sorted_by(table, *order).to_pylist(maps_as_pydicts="strict")
    return rows


def unread_files(read: ReadRun) -> Iterator[str]:
    """Describe empty logs, and logs of which every line was rejected, with the most frequent reason."""
    rejects: dict[str, list[Row]] = {}
    for row in read.rejects.to_pylist():
        rejects.setdefault(row["source_file"], []).append(row)
    unread = [each for each in read.account.files if each.rejects and not each.rows and each.file.is_log]
    for each in unread[:_MOST_FILES]:
        rows = rejects[each.file.source_file]
        ((reason, count),) = Counter(row["reason"] for row in rows).most_common(1)
        lines = "nothing of it" if each.lines is None else f"none of its {each.lines:,} lines"
        could = "its only line could not" if each.lines == 1 else f"{lines} could"
        part = f", {count:,} of them" if count < len(rows) else ""
        detail = next(row["detail"] for row in rows if row["reason"] == reason)
        yield f"{each.file.name}: {could} be read{part}: {detail}"
    if len(unread) > _MOST_FILES:
        yield f"and {plural(len(unread) - _MOST_FILES, 'more such file')}"
    empty = [each.file.name for each in read.account.files if each.lines == 0 and not each.rejects]
    yield from (f"{name}: it has no line" for name in empty[:_MOST_FILES])
    if len(empty) > _MOST_FILES:
        yield f"and {plural(len(empty) - _MOST_FILES, 'more file')} without a line"


def ignored_files(run: Run, found: Analysis) -> Iterator[str]:
    """Name the files that are not read, if the lines of some or all workers are missing."""
    if run.ignored and found.tables.job["status"] in (Status.MISSING_WORKERS, Status.NO_OPS):
        more = len(run.ignored) - _MOST_FILES
        named = ", ".join(run.ignored[:_MOST_FILES]) + (f" and {more:,} more" if more > 0 else "")
        yield f"Not read because of their names: {named}. A rank's log is named rank-00000.jsonl."


def other_day(run: Run, found: Analysis) -> Iterator[str]:
    """Warn if all lines of a run have times of another day than its folder, as a copied run would have."""
    day, rows = run.unit.log_date, found.read.rows
    days = pc.divide(rows["t0_us"], _DAY_US)
    is_there = pc.any(pc.equal(days, (day - date(1970, 1, 1)).days)).as_py()  # None without times of day
    if not run.has_day or is_there is not False or found.tables.job["status"] == Status.IMPLAUSIBLE_TIMES:
        return
    first_us, recorded = pc.min(rows["t0_us"]).as_py(), recorded_day(rows)
    if recorded is not None:
        yield f"All of its lines are of another day, the first of {recorded}: is it in the wrong folder?"
    elif first_us:
        yield f"None of its lines is of that day: t0_us is {first_us}, not in microseconds since 1970."


def manifest_template(found: Analysis) -> Iterator[str]:
    """Yield the lines of a job.json for a unit that lacks a valid one; nothing if its rows show no sizes.

    Sizes are as stated, or as the lines suggest, those rejected for the layout among them (_layout). Nothing,
    too, if all sizes are stated so already: another field is wrong then.
    """
    unit, rows, job = found.unit, found.read.rows, found.read.account.job or {}
    texts = found.read.rejects.filter(pc.field("reason") == Reason.RANK_OUT_OF_RANGE)["text"]
    if found.tables.job["status"] not in (Status.NO_MANIFEST, Status.BAD_LAYOUT):
        return
    if not rows.num_rows and not len(texts):
        return
    seen = {size: _one_more(rows[rank], _named(texts, rank)) for size, rank in _RANKS.items()}
    vpp_size = _one_more(pc.list_flatten(rows["model_chunk"]))
    ranks = pa.chunked_array([*rows["rank"].chunks, *_named(texts, "rank").cast(rows["rank"].type).chunks])
    sizes = _layout(seen, job, ranks)
    mended = {"job_id": unit.job_id, "run_id": unit.run_id, **sizes}
    mended["vpp_size"] = max(job.get("vpp_size") or 0, vpp_size)
    mended["world_size"] = prod(sizes.values())
    if all(job.get(name) == mended[name] for name in (*sizes, "vpp_size", "world_size")):
        return
    yield f"The lines suggest this {MANIFEST}; check each number, as ranks without a log are not included:"
    yield f"  {json.dumps(mended)}"


def _layout(seen: dict[str, int], job: Row, ranks: pa.ChunkedArray) -> dict[str, int]:
    """Return sizes of a layout whose product is the stated world size, if one is stated.

    A stated size counts where no line contradicts it. Those that make the world size with the fewest sizes as
    seen instead are right; else the one that is not stated is what the others leave of it. Without a world
    size one rank of several may be recorded: tp_size then leaves a place for each rank.
    """
    stated = {size: job[size] for size in seen if (job.get(size) or 0) >= seen[size]}
    world_size = job.get("world_size") or 0
    for number in range(len(seen) + 1):
        for changed in combinations(seen, number):
            tried = seen | stated | {size: seen[size] for size in changed}
            if prod(tried.values()) == world_size:
                return tried
    sizes = seen | stated
    lacking = [size for size in seen if size not in stated]
    others = prod(sizes[size] for size in sizes if [size] != lacking)
    if len(lacking) == 1 and world_size % others == 0 and world_size // others >= seen[lacking[0]]:
        return sizes | {lacking[0]: world_size // others}
    if "tp_size" not in stated and sizes["tp_size"] == 1:
        apart = int(np.gcd.reduce(np.diff(np.unique(ranks.drop_null().to_numpy()))))
        places = -(-_one_more(ranks) // prod(sizes.values()))
        sizes["tp_size"] = max(places, apart, 1)
    return sizes


def _named(texts: pa.ChunkedArray, rank: str) -> pa.ChunkedArray:
    """Return the numbers of one kind of rank, such as dp ranks, that rejected lines name."""
    found = pc.extract_regex(texts, rf'"{rank}"\s*:\s*(?P<number>\d{{1,9}})\b')
    return pc.struct_field(found, "number").cast(pa.int64())


def _one_more(*numbers: pa.ChunkedArray) -> int:
    """Return the largest number plus one, or 1 if there are no numbers.

    A number of a single line counts beside the one below it, or where no other does; else it is a slip.
    """
    found = np.concatenate([each.drop_null().to_numpy() for each in numbers])
    values, lines = np.unique(found, return_counts=True)
    is_sure = (lines > 1) | np.isin(values - 1, values)
    return int((values[is_sure] if is_sure.any() else values).max(initial=0)) + 1
