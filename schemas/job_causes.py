"""Tables job_causes (why a unit is slow, by cause) and job_baseline (figures to compare other units with)."""

from typing import Final

import pyarrow as pa

from schemas import columns as col
from schemas import vocabulary as words
from schemas.causes import DECLARED, FLAG_REASONS, IN_SECONDS, JUDGED_BY_HISTORY, NOBODY_LATE
from schemas.table import Table, sql_strings
from schemas.vocabulary import CAUSE_UNEXPLAINED, UNIT_KEY

CLOCK_NOISE_S: Final = 0.01
"""Recorded durations of transfers may be down to minus this, as clocks differ; lower ones count as 0. [s]"""

_WORKER: Final = "pp_rank number32, dp_rank number32, rank number32, host text"
HOURS_OF: Final = {
    "time_saved_fraction": "recoverable_gpu_hours",
    "attributed_fraction": "attributed_gpu_hours",
    "lost_fraction": "lost_gpu_hours",
}
"""By figure with an interval, the name of its column in GPU-hours."""
_HAS_PART: Final = {
    "recoverable_gpu_hours": "is_cause",
    "attributed_gpu_hours": "is_cause",
    "lost_gpu_hours": "lost_fraction > 0",
}
"""By column, the condition for rows that have a relevant part of its sum: other rows have little or 0."""


def sum_of_stated(hours: str, has_part: str) -> str:
    """Return SQL for the sum of GPU-hours over the rows that state GPU-hours.

    The sum is null if `has_part` is true for some rows and none of these states GPU-hours.
    """
    is_stated = f"count_if({has_part}) = 0 OR count_if({has_part} AND {hours} IS NOT NULL) > 0"
    return f"CASE WHEN {is_stated} THEN sum({hours}) END"


SUMS_OF_HOURS: Final = {hours: sum_of_stated(hours, has_part) for hours, has_part in _HAS_PART.items()}
"""By column of GPU-hours, SQL for its sum over units of one cause."""
CULPRIT: Final = col.struct(
    f"{_WORKER}, effect real, lost_s real, share_of_steps real, pattern text, direction text, course text, "
    "first_step integer, last_step integer, first_time instant, last_time instant, reach text, "
    "slow_host text, slow_rack text",
    workers=pa.list_(col.struct(_WORKER)),
)
_DIRECTIONS: Final = (words.DIRECTION_BOTH, *words.COMPUTE_DIRECTIONS, *words.OP_TYPES)
UNREVISED: Final = pa.struct(
    [
        *col.struct("is_cause flag, time_saved_fraction real, attributed_fraction real, flag_reason text"),
        ("culprits", pa.list_(CULPRIT)),
        ("evidence", pa.map_(pa.string(), pa.float64())),
        *(
            (f"{name}_{end}", pa.float64())
            for name in ("time_saved_fraction", "attributed_fraction")
            for end in ("low", "high")
        ),
    ]
)
"""Type of the values that a row had before history revised it."""


def _is_finite(name: str, bound: str = ">= 0") -> str:
    return f"coalesce({name} {bound} AND {name} < double('Infinity'), false)"


_IS_CULPRIT: Final = (
    "each.effect > double('-Infinity') AND each.effect < double('Infinity')"
    " AND each.share_of_steps BETWEEN 0 AND 1"
    f" AND each.pattern IN ({sql_strings(words.CULPRIT_PATTERNS)})"
)
# Rows of an earlier version stay in a day when late units of this day are added.
_HAS_COURSE: Final = (
    "coalesce(each.direction, each.course, each.reach) IS NULL OR"
    f" coalesce(each.direction IN ({sql_strings(_DIRECTIONS)})"
    f" AND each.course IN ({sql_strings(words.CULPRIT_COURSES)})"
    f" AND each.reach IN ({sql_strings(words.CULPRIT_REACHES)}), false)"
    " AND coalesce(each.first_step <= each.last_step, each.first_step IS NULL AND each.last_step IS NULL)"
)
_KEYS: Final = (*words.EVIDENCE_KEYS, *words.HISTORY_KEYS)
_ONLY_WHERE: Final = ", ".join(
    f"of {each.name} only where {each.only_where}" for each in DECLARED if each.only_where
)
_AND_SECONDS: Final = f"{', '.join(IN_SECONDS[:-1])} and {IN_SECONDS[-1]}"
_IS_ONE_WORKER: Final = "each.pp_rank IS NOT NULL AND each.dp_rank IS NOT NULL"

(CULPRITS,) = col.declared(
    f"""
    culprits (culprits): what causes the slowness, worst first; each entry is one or more workers. pp_rank,
        dp_rank: of the workers, null: all; rank: the replayed rank, and host: its host in at least 90 % of
        the steps from first_step to last_step, both null unless the entry is one worker; effect: how much
        longer its ops took, as a share of the usual time, or for {_AND_SECONDS} in seconds per affected step;
        lost_s: seconds by which all its ops together took longer, mean over all steps, null if not known;
        share_of_steps: share of the steps in which it was slow; pattern:
        {", ".join(words.CULPRIT_PATTERNS)}; direction: which ops are slow, {words.DIRECTION_BOTH} (forwards
        and backwards), {", ".join(words.COMPUTE_DIRECTIONS)} or an op type; course: how the slowness goes
        over the steps, {", ".join(words.CULPRIT_COURSES)}; first_step, last_step: first and last slow step,
        null if history decided; first_time, last_time: when these steps began, null if the log has no times
        of day; reach: which workers are slow together, {", ".join(words.CULPRIT_REACHES)}; slow_host,
        slow_rack: name of the host or rack if that is the reach; workers: the slow workers, empty if it is
        one worker. The fields from direction on are null in rows of a version before 0.4.0
    """,
    own={"culprits": pa.list_(CULPRIT)},
)
CULPRIT_RULES: Final = col.rules(f"""
    -- every culprit has a finite effect, a share of the steps and a pattern
    culprits_are_described: forall(culprits, each -> coalesce({_IS_CULPRIT}, false))
    -- every culprit has a direction, a course and a reach, and first_step <= last_step or neither, unless an
    -- earlier version wrote the row
    culprits_have_their_course: forall(culprits, each -> {_HAS_COURSE})
    -- a culprit has a rank exactly if it is one worker, and a host only if it has a rank
    one_worker_has_its_rank: forall(culprits, each -> ({_IS_ONE_WORKER}) = (each.rank IS NOT NULL) AND
        (each.rank IS NOT NULL OR each.host IS NULL))
    """)

JOB_CAUSES: Final = Table(
    "job_causes",
    f"One row per replayed unit and cause; {_ONLY_WHERE}. All figures are estimates from replays in which "
    "the same work is done without its uneven part. Fractions are relative to T_actual and are not clipped: "
    "a fix may save less than nothing. If the replay is longer than the recorded step, so that a fix would "
    "save more than the step, all fractions of the unit are scaled down by one factor. time_saved_fraction "
    "and recoverable_gpu_hours say what fixing this cause alone saves, and must not be added up over "
    "causes, because one cause can hide behind another. attributed_fraction and attributed_gpu_hours divide "
    f"what all fixes together save among the causes, and may be added up. For the cause {CAUSE_UNEXPLAINED}, "
    "time_saved_fraction and recoverable_gpu_hours are the further saving, after all fixes, if all "
    "deviations beyond the job's noise were removed, and the attributed values are 0. lost_fraction and "
    "lost_gpu_hours, which the report and the views call lost, are known for analysed units only. They are "
    "never negative. Summed over causes, they are the recorded step time less the step time with all causes "
    "fixed and without other deviations beyond the job's noise: a row with is_cause has what is attributed "
    f"to its cause, and {CAUSE_UNEXPLAINED} has the rest. Figures of a flagged row are the best estimates "
    "too; the flag says why they are less reliable.",
    grain=(*UNIT_KEY, "cause"),
    columns=(
        *col.declared(
            f"""
            log_date, job_id, run_id
            cause (text of CAUSES): why the unit may be slow
            is_cause (flag): whether the cause holds: its fix alone saves enough, with enough evidence
            time_saved_fraction (share): (T_actual - step time with this cause alone fixed) / T_actual
            attributed_fraction (fraction): part of T_actual that is the cause's share of what all fixes
                together save (Shapley value)
            recoverable_gpu_hours (gpu_hours): gpu_hours x time_saved_fraction; null without gpu_hours
            attributed_gpu_hours (gpu_hours): gpu_hours x attributed_fraction; null without gpu_hours
            lost_fraction (share? >= 0): part of T_actual that the unit loses to the cause; null unless the
                unit is analysed
            lost_gpu_hours (gpu_hours >= 0): gpu_hours x lost_fraction; null if either is null
            flag_reason (text? of FLAGS): why the row is less reliable than others; null: it is not.
                {JUDGED_BY_HISTORY}: other jobs or earlier days decided, because the unit's own steps were not
                enough; {NOBODY_LATE}: see nobody_late_steps of job_slowdown
            culprits
            evidence (text -> real): numbers that the row is based on; an unknown number has no key. effect:
                largest effect, in the unit of the culprits' effect; standard_error: of that effect; peers:
                number of peers that the effect was compared with; samples: number of ops; indicator: the
                paper's (M_W, M_S or correlation). If history decided, also history_runs: number of runs of
                the same model that the unit was compared with; history_jobs: number of other jobs in which
                the host was slow; history_factor: time relative to these runs or jobs; revised_from:
                time_saved_fraction before the revision
            """,
            own={"culprits": CULPRITS, "FLAGS": (*FLAG_REASONS, NOBODY_LATE, JUDGED_BY_HISTORY)},
        ),
        *col.interval(*HOURS_OF),
        *col.declared("""
            diagnosis_error_fraction (fraction? >= 0): part of the half width of these intervals that is the
                diagnosis's own error, which more recorded steps do not reduce; the error is the same on all
                days of a run, and so adds up over days; null without an interval
            interval_freedom (real? [count] >= 1): degrees of freedom of the other part of the half width,
                the sampling error, few if it was estimated from few stretches of steps; null without a
                sampling error, and in rows of an earlier version
            """),
        *col.interval(*HOURS_OF.values(), unit="GPU h"),
        *col.declared(
            """
            unrevised (unrevised?): values of the row before history revised it; null if history did not
                revise the row
            """,
            own={"unrevised": UNREVISED},
        ),
    ),
    expectations=(
        col.in_order(*HOURS_OF),
        *col.rules(f"""
            -- {CAUSE_UNEXPLAINED} has no fix, and so no share of what fixes save
            nothing_attributed_to_unexplained: cause <> '{CAUSE_UNEXPLAINED}' OR attributed_fraction = 0
            -- recoverable and attributed GPU-hours exist together
            gpu_hours_of_both_or_neither: (recoverable_gpu_hours IS NULL) = (attributed_gpu_hours IS NULL)
            -- a row without is_cause has lost_fraction 0, except for unexplained
            what_does_not_hold_loses_nothing: is_cause OR cause = '{CAUSE_UNEXPLAINED}' OR
                coalesce(lost_fraction, 0) = 0
            """),
        *CULPRIT_RULES,
        *col.rules(f"""
            -- evidence has only the keys {", ".join(_KEYS)}; readers ignore others
            evidence_is_known (warns): forall(map_keys(evidence), key -> key IN ({sql_strings(_KEYS)}))
            -- exactly the rows flagged {JUDGED_BY_HISTORY} have revised_from and unrevised
            revised_rows_say_so: (unrevised IS NOT NULL) = (coalesce(flag_reason, '') = '{JUDGED_BY_HISTORY}')
                AND (unrevised IS NOT NULL) = coalesce(array_contains(map_keys(evidence), 'revised_from'),
                false)
            """),
    ),
)

JOB_BASELINE: Final = Table(
    "job_baseline",
    "One row per replayed unit, with figures for the revision of other units, namely of later units of the "
    "same model and layout, and of later jobs on the same hosts (job_causes). The values are never revised.",
    grain=UNIT_KEY,
    columns=col.declared(
        """
        log_date, job_id, run_id
        status (text of REPLAYED_STATUSES): as in job_slowdown
        model (text?): model being trained, from the manifest
        gpu_type (text?): type of the GPUs, from the manifest; all types, if workers are on several
        dp_size (size >= 1): number of replicas
        pp_size (size >= 1): number of stages
        cp_size (size >= 1): context-parallel size
        vpp_size (size >= 1): number of model chunks per stage
        world_size (size >= 1): ranks of the run
        ideal (text): how ideal durations were chosen
        simulator_version (text): version of the simulator that wrote the row
        ops_per_step (real [count] >= 0): number of replayed ops divided by the number of steps
        actual_step_s (seconds >= 0): as in job_slowdown
        ideal_step_s
        stages (stages): one entry per stage, by pp_rank. usual_compute_s: time of all computes of a worker in
            a step, median over steps, then lower median over dp ranks, converted to the fastest type of GPU;
            hosts: hosts of the replayed ranks, each once, null if not logged
        op_types (op_types): one entry per op type of op_type_slowdown. ideal_duration_s: ideal duration of an
            op, mean over stages, and over send and recv; for transfers slightly below 0 if clocks differ
        slow_hosts (slow_hosts): hosts of workers that were slow in all steps, by the unit's own steps and
            without a flag. effect: how much longer their ops take, as a share of the usual time
        """,
        own={
            "stages": pa.list_(
                col.struct("pp_rank number32, usual_compute_s real", hosts=pa.list_(pa.string()))
            ),
            "op_types": pa.list_(col.struct("op_type text, ideal_duration_s real")),
            "slow_hosts": pa.list_(col.struct("host text, effect real")),
        },
    ),
    expectations=col.rules(f"""
        -- one entry per stage
        every_stage_is_there: size(stages) = pp_size
        -- times of stages are finite and not negative; those of op types are finite and above -10 ms, because
        -- clocks that differ can make a transfer end before it starts
        times_are_known: forall(stages, each -> {_is_finite("each.usual_compute_s")}) AND forall(op_types,
            each -> {_is_finite("each.ideal_duration_s", f"> -{CLOCK_NOISE_S}")})
        -- slow hosts have a name and a finite effect
        slow_hosts_are_named: forall(slow_hosts, each -> each.host IS NOT NULL AND
            {_is_finite("each.effect")})
        """),
)
