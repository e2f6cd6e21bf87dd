"""What must hold between the result tables of a simulation, as queries that find the units that break it."""

from collections.abc import Mapping
from typing import Final

import duckdb
import pyarrow as pa

from schemas.fields import SAME_FORMULA
from schemas.table import sql_strings
from schemas.vocabulary import (
    CAUSES,
    DP_RANK_SLOWDOWN,
    HOST_CLOCK,
    JOB_CAUSES,
    JOB_SLOWDOWN,
    JOBS,
    REPLAYED_STATUSES,
    RESULT_TABLES,
    STAGE_SLOWDOWN,
    STEP_SLOWDOWN,
    UNIT_KEY,
    WORKER_SLOWDOWN,
)

_KEY: Final = ", ".join(UNIT_KEY)
_OTHERS: Final = tuple(name for name in RESULT_TABLES if name != JOB_SLOWDOWN)
_COUNTED: Final = " UNION ALL ".join(f"SELECT {_KEY}, '{name}' AS name FROM {name}" for name in RESULT_TABLES)
_ROWS: Final = ", ".join(f"count(*) FILTER (name = '{name}') AS {name}" for name in RESULT_TABLES)

_INCOMPLETE: Final = f"""
    WITH counts AS (SELECT {_KEY}, {_ROWS} FROM ({_COUNTED}) GROUP BY ALL),
    shape AS (
        SELECT {_KEY}, count(DISTINCT pp_rank) AS stages, count(DISTINCT dp_rank) AS dp_ranks
        FROM {WORKER_SLOWDOWN} GROUP BY ALL
    )
    SELECT DISTINCT {_KEY}
    FROM counts LEFT JOIN shape USING ({_KEY}) LEFT JOIN {JOB_SLOWDOWN} AS job USING ({_KEY})
    WHERE NOT coalesce(
        counts.{JOB_SLOWDOWN} = 1 AND CASE
            WHEN job.status IN ({sql_strings(REPLAYED_STATUSES)}) THEN
                least({", ".join(f"counts.{name}" for name in _OTHERS)}) > 0
                AND counts.{STEP_SLOWDOWN} = job.steps AND counts.{WORKER_SLOWDOWN} = job.workers
                AND counts.{STAGE_SLOWDOWN} = shape.stages AND counts.{DP_RANK_SLOWDOWN} = shape.dp_ranks
                AND counts.{HOST_CLOCK} = job.clocks AND counts.{JOB_CAUSES} = {len(CAUSES)}
            ELSE greatest({", ".join(f"counts.{name}" for name in _OTHERS)}) = 0
        END, false)"""

_LOST_OR_MADE_UP: Final = f"""
    (SELECT {_KEY} FROM {JOBS} EXCEPT SELECT {_KEY} FROM {JOB_SLOWDOWN})
    UNION ALL (SELECT {_KEY} FROM {JOB_SLOWDOWN} EXCEPT SELECT {_KEY} FROM {JOBS})"""


def _agree(found: str, wanted: str) -> str:
    """SQL: both null, or equal relative to the larger of 1 and what is wanted; never null."""
    is_close = f"abs({found} - {wanted}) <= {SAME_FORMULA!r} * greatest(1.0, abs({wanted}))"
    return f"(({found} IS NULL AND {wanted} IS NULL) OR coalesce({is_close}, false))"


_OTHER_GPU_HOURS: Final = f"""
    SELECT DISTINCT {_KEY}
    FROM {JOB_CAUSES} AS cause LEFT JOIN {JOB_SLOWDOWN} AS job USING ({_KEY})
    WHERE NOT ({_agree("recoverable_gpu_hours", "gpu_hours * time_saved_fraction")}
        AND {_agree("attributed_gpu_hours", "gpu_hours * attributed_fraction")})"""


def incomplete_units(results: Mapping[str, pa.Table]) -> pa.Table:
    """Units whose result tables do not belong together: a row missing, or one where none should be.

    A replayed unit has a row in every table: one per step, per worker, per clock, per stage and per dp rank
    that has workers, and per cause.
    """
    return _units(_INCOMPLETE, results)


def units_without_result(results: Mapping[str, pa.Table], jobs: pa.Table) -> pa.Table:
    """Units of `jobs` that the simulation lost, and units it made up."""
    return _units(_LOST_OR_MADE_UP, {**results, JOBS: jobs})


def units_of_other_gpu_hours(results: Mapping[str, pa.Table]) -> pa.Table:
    """Units with a cause whose GPU-hours are not those of the unit times its fraction."""
    return _units(_OTHER_GPU_HOURS, results)


def _units(query: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    with duckdb.connect() as connection:
        for name, rows in tables.items():
            connection.register(name, rows)
        return connection.sql(query).to_arrow_table()
