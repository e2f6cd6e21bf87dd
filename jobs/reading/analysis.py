"""Analyse one run as a night does, without Spark or a warehouse.

Also explain in words what keeps a run from being analysed: files from which no line was read, a missing
manifest.
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
"""Name of the project's own settings; used are the limits on files, and the settings of the simulation."""
_JOB: Final = "job_days"
_WATERFALL: Final = "waterfall"
_DAY_US: Final = 86_400_000_000
_MOST_FILES: Final = 5
"""Most files that one warning names."""
_RANKS: Final = {"dp_size": "dp_rank", "pp_size": "pp_rank", "tp_size": "tp_rank", "cp_size": "cp_rank"}
"""Name of each size in job.json, and the column of rank_steps whose values have to be less than that size."""


class Analysis(NamedTuple):
    """Results of analysing one run.

    tables : rows for the run's page
    results : result tables by name, as a night writes them before it revises causes by other jobs and days
    """

    unit: Unit
    read: ReadRun
    tables: UnitTables
    results: dict[str, pa.Table]


def analysis(run: Run) -> Analysis:
    """Read, simulate and diagnose a run; a defect of its logs raises no error, but becomes its status."""
    settings = load_settings(SHIPPED)
    return analysed(run.unit, read_run(run, Bounds(**settings.landing.model_dump())), has_day=run.has_day)


def analysed(unit: Unit, read: ReadRun, *, has_day: bool) -> Analysis:
    """Simulate and diagnose a run that has been read.

    has_day : whether the log date in `unit` is known; else recorded_day replaces it, if it finds a day
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
    if (crop := crop_of(tables)) is not None:
        is_rank = pc.field("rank").isin([crop.culprit["rank"], crop.peer["rank"]])
        is_drawn = is_rank & pc.field("step").isin([crop.slow_step, crop.usual_step])
        drawn = read.rows.select(["rank", "step", "op", "start_us", "duration_us"]).filter(is_drawn)
        tables = replace(tables, crop=_rows(drawn))
    return Analysis(unit, read, tables, results)


def recorded_day(rows: pa.Table) -> date | None:
    """Return the UTC date of the earliest t0_us that can be a time since 1970; None if no line has one."""
    earliest, latest = (round(each * 1e6) for each in T0_IN_S)
    t0_us = rows["t0_us"]
    is_time = pc.and_(pc.greater_equal(t0_us, earliest), pc.less(t0_us, latest))
    first_us = pc.min(t0_us.filter(is_time)).as_py()
    return None if first_us is None else datetime.fromtimestamp(first_us / 1e6, UTC).date()


def _of_unit(name: str, rows: pa.Table, unit: Unit) -> pa.Table:
    """Return rows of a table in its declared schema, with the unit's key added if the rows lack it."""
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
    """Describe each log without lines, and each log whose lines were all rejected, with the main reason."""
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
    """Name the files that were ignored because of their names, if the run lacks the lines of some workers."""
    if run.ignored and found.tables.job["status"] in (Status.MISSING_WORKERS, Status.NO_OPS):
        more = len(run.ignored) - _MOST_FILES
        named = ", ".join(run.ignored[:_MOST_FILES]) + (f" and {more:,} more" if more > 0 else "")
        yield f"Not read because of their names: {named}. A rank's log is named rank-00000.jsonl."


def other_day(run: Run, found: Analysis) -> Iterator[str]:
    """Warn if no line of a run has a time on the day of its folder, as in a run copied to a wrong day."""
    day, rows = run.unit.log_date, found.read.rows
    days = pc.divide(rows["t0_us"], _DAY_US)
    is_there = pc.any(pc.equal(days, (day - date(1970, 1, 1)).days)).as_py()  # None if no line has a t0_us
    if not run.has_day or is_there is not False or found.tables.job["status"] == Status.IMPLAUSIBLE_TIMES:
        return
    first_us, recorded = pc.min(rows["t0_us"]).as_py(), recorded_day(rows)
    if recorded is not None:
        yield f"All of its lines are of another day, the first of {recorded}: is it in the wrong folder?"
    elif first_us:
        yield f"None of its lines is of that day: t0_us is {first_us}, not in microseconds since 1970."


def manifest_template(found: Analysis) -> Iterator[str]:
    """Yield a sentence and a job.json that fits a run's lines, if the run has none or its layout is wrong.

    Each size is the one that the run's job.json states or the one that its lines suggest, see _layout. Lines
    that were rejected because their ranks do not fit the layout count, too. Yields nothing if the
    run has neither, or if job.json states these sizes already, because then another of its fields is wrong.
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
    """Return sizes of a layout, by name, whose product is the stated world size if that is possible.

    A stated size is used unless it is less than its value in `seen`. If the product is not the world size, as
    few stated sizes as possible are replaced by those in `seen`. If that does not help and one size is not
    stated, this size is the world size divided by the others. Else, if tp_size is not known, only one rank of
    each tensor-parallel group may have been recorded: tp_size is chosen so that every rank has a place.

    seen : for each size, the smallest value that fits the ranks in the lines
    job  : the stated sizes
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
    """Return the numbers of one kind of rank, such as dp_rank, in the texts of rejected lines."""
    found = pc.extract_regex(texts, rf'"{rank}"\s*:\s*(?P<number>\d{{1,9}})\b')
    return pc.struct_field(found, "number").cast(pa.int64())


def _one_more(*numbers: pa.ChunkedArray) -> int:
    """Return the largest number plus one: the size of a dimension with these ranks; 1 without numbers.

    A number that occurs in only one line counts as an error, unless the number minus one occurs too, or all
    numbers would be errors.
    """
    found = np.concatenate([each.drop_null().to_numpy() for each in numbers])
    values, lines = np.unique(found, return_counts=True)
    is_sure = (lines > 1) | np.isin(values - 1, values)
    return int((values[is_sure] if is_sure.any() else values).max(initial=0)) + 1
