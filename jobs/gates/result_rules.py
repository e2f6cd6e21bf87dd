"""Rules across tables, as queries that find the rows that break a rule."""

from collections.abc import Callable, Mapping
from typing import Final

import duckdb

from jobs.gates.checks import GateError, Rule
from jobs.gates.registered import judge
from jobs.warehouse.rows import Rows
from schemas import vocabulary as words
from schemas.columns import SAME_FORMULA, SAME_SUM
from schemas.job_causes import SUMS_OF_HOURS
from schemas.table import sql_strings
from schemas.tables import TABLES

RuleOf = Callable[[Mapping[str, Rows]], Rule]

_KEY: Final = ", ".join(words.UNIT_KEY)
_NEEDED: Final = tuple(name for name in words.REPLAY_TABLES if name != words.JOB_SLOWDOWN)
_ALWAYS: Final = tuple(cause for cause in words.CAUSES if cause not in words.LOGGED_CAUSES)
"""Causes for which every replayed unit has a row."""
_COUNTED: Final = " UNION ALL ".join(
    f"SELECT {_KEY}, '{name}' AS name FROM {name}"
    + (f" WHERE cause IN ({sql_strings(_ALWAYS)})" if name == words.JOB_CAUSES else "")
    for name in words.RESULT_TABLES
)
_ROWS: Final = ", ".join(f"count(*) FILTER (name = '{name}') AS {name}" for name in words.RESULT_TABLES)
_IF_ANALYSED: Final = f"CASE WHEN job.status = '{words.Status.ANALYSED}' THEN {{}} END"


def _agree(found: str, wanted: str, tolerance: float) -> str:
    """Return an SQL condition: both values are null, or differ by at most tolerance * max(1, |wanted|)."""
    is_close = f"abs({found} - {wanted}) <= {tolerance!r} * greatest(1.0, abs({wanted}))"
    return f"(({found} IS NULL AND {wanted} IS NULL) OR coalesce({is_close}, false))"


def _rule(table: str, name: str, meaning: str, query: str) -> RuleOf:
    """Return a function that takes rows by table, runs `query` on them, and returns a Rule with its rows.

    The function raises GateError if the query cannot be evaluated, which never counts as a pass.
    """

    def found(tables: Mapping[str, Rows]) -> Rule:
        named = {each: (TABLES[each], rows) for each, rows in tables.items() if each in query}
        with judge(named) as connection:
            try:
                return Rule(name, connection.sql(query).to_arrow_table(), table, meaning)
            except duckdb.Error as error:
                of_rule = f"rule {table}.{name} ({meaning}) could not be evaluated over {', '.join(tables)}"
                raise GateError(f"{of_rule}: {str(error).splitlines()[0]}") from error

    return found


incomplete_units: Final = _rule(
    "several",
    "replayed_units_are_complete",
    "a replayed unit has all its rows in every result table, any other unit only one",
    f"""
    WITH counts AS (SELECT {_KEY}, {_ROWS} FROM ({_COUNTED}) GROUP BY ALL),
    shape AS (
        SELECT {_KEY}, count(DISTINCT pp_rank) AS stages, count(DISTINCT dp_rank) AS dp_ranks
        FROM worker_slowdown GROUP BY ALL
    )
    SELECT DISTINCT {_KEY}
    FROM counts LEFT JOIN shape USING ({_KEY}) LEFT JOIN job_slowdown AS job USING ({_KEY})
    WHERE NOT coalesce(
        counts.job_slowdown = 1 AND CASE
            WHEN job.status IN ({sql_strings(words.REPLAYED_STATUSES)}) THEN
                least({", ".join(f"counts.{name}" for name in _NEEDED)}) > 0
                AND counts.step_slowdown = job.steps AND counts.worker_slowdown = job.workers
                AND counts.stage_slowdown = shape.stages AND counts.dp_rank_slowdown = shape.dp_ranks
                AND counts.host_clock = job.clocks AND counts.job_causes = {len(_ALWAYS)}
            ELSE greatest({", ".join(f"counts.{name}" for name in (*_NEEDED, *words.FURTHER_TABLES))}) = 0
        END, false)""",
)
"""A replayed unit has one row per step, worker, clock, stage and dp rank that has workers, and per cause."""

units_without_result: Final = _rule(
    words.JOB_SLOWDOWN,
    "every_unit_has_a_result",
    "job_slowdown has exactly the units of jobs",
    f"""
    (SELECT {_KEY} FROM jobs EXCEPT SELECT {_KEY} FROM job_slowdown)
    UNION ALL (SELECT {_KEY} FROM job_slowdown EXCEPT SELECT {_KEY} FROM jobs)""",
)

units_of_other_gpu_hours: Final = _rule(
    words.JOB_CAUSES,
    "causes_share_the_gpu_hours_of_the_unit",
    "GPU-hours of a cause are those of its unit, in job_slowdown, times its fractions",
    f"""
    SELECT DISTINCT {_KEY}
    FROM job_causes AS cause LEFT JOIN job_slowdown AS job USING ({_KEY})
    WHERE NOT ({_agree("recoverable_gpu_hours", "gpu_hours * time_saved_fraction", SAME_FORMULA)}
        AND {_agree("lost_gpu_hours", "gpu_hours * lost_fraction", SAME_FORMULA)}
        AND {_agree("attributed_gpu_hours", "gpu_hours * attributed_fraction", SAME_FORMULA)})""",
)

units_of_other_loss: Final = _rule(
    words.JOB_CAUSES,
    "causes_add_up_to_what_is_lost",
    "the causes of an analysed unit lose what all fixes together save, plus the loss beyond fixes and noise; "
    "other units lose nothing",
    # The second sum is of units simulated by versions before 0.4.0, which stay beside others of their day.
    f"""
    SELECT {_KEY}
    FROM (SELECT {_KEY}, sum(lost_fraction) AS lost, greatest(0, sum(attributed_fraction)) AS returned,
            coalesce(max(greatest(0, time_saved_fraction))
                FILTER (cause = '{words.CAUSE_UNEXPLAINED}'), 0) AS beyond
        FROM job_causes GROUP BY ALL) LEFT JOIN job_slowdown AS job USING ({_KEY})
    WHERE NOT ({_agree("lost", _IF_ANALYSED.format("returned + beyond"), SAME_SUM)}
        OR {_agree("lost", _IF_ANALYSED.format("returned"), SAME_SUM)})""",
)

units_of_more_than_all: Final = _rule(
    words.JOB_CAUSES,
    "causes_lose_at_most_the_unit",
    "causes together lose at most the step, their parts at most what is lost, and no fix saves more "
    "GPU-hours than the unit took",
    f"""
    SELECT {_KEY}
    FROM job_causes AS cause LEFT JOIN job_slowdown AS job USING ({_KEY})
    GROUP BY ALL
    HAVING sum(lost_fraction) > {1.0 + SAME_SUM!r}
        OR sum(attributed_fraction) > sum(lost_fraction) + {SAME_SUM!r}
        OR max(recoverable_gpu_hours - gpu_hours) > max({SAME_SUM!r} * gpu_hours)""",
)

units_of_other_schedule: Final = _rule(
    words.JOB_TIME,
    "schedule_is_that_of_the_unit",
    "scheduled_gpu_hours are the GPU-hours of the unit, in job_slowdown",
    f"""
    SELECT {_KEY}
    FROM job_time LEFT JOIN job_slowdown AS job USING ({_KEY})
    WHERE scheduled_gpu_hours IS DISTINCT FROM gpu_hours""",
)

units_of_other_types: Final = _rule(
    words.GPU_TYPE_SLOWDOWN,
    "types_are_those_of_the_unit",
    "types of GPU include all workers of the unit, and state the saving of the cause mixed_hardware",
    f"""
    SELECT {_KEY}
    FROM (SELECT {_KEY}, sum(workers) AS workers,
            min(time_saved_fraction) AS least, max(time_saved_fraction) AS most
        FROM gpu_type_slowdown GROUP BY ALL) AS types
        FULL JOIN (FROM job_causes WHERE cause = '{words.CAUSE_MIXED_HARDWARE}') AS cause USING ({_KEY})
        LEFT JOIN job_slowdown AS job USING ({_KEY})
    WHERE types.workers IS DISTINCT FROM job.workers OR cause.time_saved_fraction IS NULL
        OR least <> cause.time_saved_fraction OR most <> cause.time_saved_fraction""",
)

miscounted_loss: Final = _rule(
    words.FLEET_DAY,
    "loss_is_that_of_causes",
    "a day's causes add up to what the fleet lost",
    f"""
    SELECT log_date, fleet.lost_gpu_hours, causes.lost_gpu_hours AS of_causes, fleet.lost_s,
        causes.lost_s AS s_of_causes
    FROM fleet_day AS fleet FULL JOIN (
        SELECT log_date, sum(lost_gpu_hours) AS lost_gpu_hours, sum(lost_s) AS lost_s
        FROM cause_day GROUP BY ALL
    ) AS causes USING (log_date)
    WHERE NOT ({_agree("coalesce(causes.lost_gpu_hours, 0)", "coalesce(fleet.lost_gpu_hours, 0)", SAME_SUM)}
        AND {_agree("causes.lost_s", "fleet.lost_s", SAME_SUM)})""",
)

miscounted_units: Final = _rule(
    words.FLEET_DAY,
    "counts_every_unit",
    "a day's jobs are the units that were ingested",
    """
    SELECT log_date, ingested, counted
    FROM (SELECT log_date, count(*) AS ingested FROM jobs GROUP BY ALL)
        FULL JOIN (SELECT log_date, day.jobs AS counted FROM fleet_day AS day) USING (log_date)
    WHERE ingested IS DISTINCT FROM counted""",
)

miscounted_causes: Final = _rule(
    words.CAUSE_DAY,
    "sums_job_causes",
    "a day's causes are those of its replayed units",
    f"""
    WITH units AS (
        SELECT log_date, cause, count(*) AS replayed, count(*) FILTER (is_cause) AS jobs,
            count(*) FILTER (is_cause AND flag_reason IS NOT NULL) AS flagged_jobs,
            {", ".join(f"{sql} AS {name}" for name, sql in SUMS_OF_HOURS.items())}
        FROM job_causes GROUP BY ALL
    ),
    fleet AS (
        SELECT log_date, unnest([{sql_strings(_ALWAYS)}]) AS cause, replayed
        FROM fleet_day WHERE replayed > 0
    )
    SELECT log_date, cause
    FROM units FULL JOIN fleet USING (log_date, cause) FULL JOIN cause_day AS day USING (log_date, cause)
    WHERE (cause IN ({sql_strings(_ALWAYS)}) AND day.replayed IS DISTINCT FROM fleet.replayed)
        OR day.replayed IS DISTINCT FROM units.replayed OR day.jobs IS DISTINCT FROM units.jobs
        OR day.flagged_jobs IS DISTINCT FROM units.flagged_jobs
        OR NOT {_agree("day.recoverable_gpu_hours", "units.recoverable_gpu_hours", SAME_SUM)}
        OR NOT {_agree("day.attributed_gpu_hours", "units.attributed_gpu_hours", SAME_SUM)}
        OR NOT {_agree("day.lost_gpu_hours", "units.lost_gpu_hours", SAME_SUM)}""",
)

broken_path: Final = _rule(
    words.ROLE_EFFECT,
    "path_is_as_long_as_the_whole",
    "spans and transitions on the longest path add up to the recorded time of the whole",
    f"""
    SELECT log_date, part_of
    FROM role_effect GROUP BY ALL
    HAVING NOT {_agree("sum(waited_for_s + transition_s)", "max(whole_s)", SAME_SUM)}""",
)

RESULT_RULES: Final = (
    incomplete_units,
    units_without_result,
    units_of_other_gpu_hours,
    units_of_other_loss,
    units_of_more_than_all,
    units_of_other_schedule,
    units_of_other_types,
)
"""Rules of the result tables and `jobs`."""
CAUSE_RULES: Final = (units_of_other_gpu_hours, units_of_other_loss, units_of_more_than_all)
"""Rules of `job_causes` and `job_slowdown`."""
DAY_RULES: Final = (miscounted_units, miscounted_causes, miscounted_loss)
"""Rules of `jobs`, `job_causes`, `cause_day` and `fleet_day` of the same days."""
ROLE_RULES: Final = (broken_path,)
"""Rules of `role_effect`."""
