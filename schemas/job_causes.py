"""job_causes: why a unit is slow, by cause; job_baseline: usual times with which later units are compared."""

from typing import Final

import pyarrow as pa

from schemas import columns as col
from schemas import vocabulary as words
from schemas.causes import DECLARED, FLAG_REASONS, IN_SECONDS, JUDGED_BY_HISTORY, NOBODY_LATE
from schemas.table import Table, sql_strings
from schemas.vocabulary import CAUSE_UNEXPLAINED, UNIT_KEY

CLOCK_NOISE_S: Final = 0.01
"""A transfer may seem to end this long before its start; beyond that the replay takes 0. [s]"""

_WORKER: Final = "pp_rank number32, dp_rank number32, rank number32, host text"
HOURS_OF: Final = {
    "time_saved_fraction": "recoverable_gpu_hours",
    "attributed_fraction": "attributed_gpu_hours",
    "lost_fraction": "lost_gpu_hours",
}
"""Figures that have an interval, and their columns in GPU-hours."""
_HAS_PART: Final = {
    "recoverable_gpu_hours": "is_cause",
    "attributed_gpu_hours": "is_cause",
    "lost_gpu_hours": "lost_fraction > 0",
}
"""Which units a sum of GPU-hours is about: others have a small part of it, or 0."""


def sum_of_stated(hours: str, has_part: str) -> str:
    """Return SQL for the sum of GPU-hours over the rows that state GPU-hours.

    It is null, not the 0 of the other rows, where rows have a part of it and none of these states any.
    """
    is_stated = f"count_if({has_part}) = 0 OR count_if({has_part} AND {hours} IS NOT NULL) > 0"
    return f"CASE WHEN {is_stated} THEN sum({hours}) END"


SUMS_OF_HOURS: Final = {hours: sum_of_stated(hours, has_part) for hours, has_part in _HAS_PART.items()}
"""SQL of the sums of these columns over units of one cause."""
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
"""The values of a row before history revised it."""


def _is_finite(name: str, bound: str = ">= 0") -> str:
    return f"coalesce({name} {bound} AND {name} < double('Infinity'), false)"


_IS_CULPRIT: Final = (
    "each.effect > double('-Infinity') AND each.effect < double('Infinity')"
    " AND each.share_of_steps BETWEEN 0 AND 1"
    f" AND each.pattern IN ({sql_strings(words.CULPRIT_PATTERNS)})"
)
# A unit that an earlier version simulated stays beside those of its day that come late.
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
    culprits (culprits): workers behind the cause, worst first. pp_rank, dp_rank: null: all; rank, host:
        of the replayed rank, null unless it is one worker, the host that of 90 % of the steps from
        first_step to last_step, else null; effect: how much longer its ops took as a share of the usual
        time, for {_AND_SECONDS} in seconds per step that it struck; lost_s: what its ops took longer in
        the mean step, all together, in seconds, null where it is not known; share_of_steps: in how many
        steps; pattern: {", ".join(words.CULPRIT_PATTERNS)}; direction: what is slow,
        {words.DIRECTION_BOTH} (forwards and backwards), {", ".join(words.COMPUTE_DIRECTIONS)} or an op
        type; course: over the steps, {", ".join(words.CULPRIT_COURSES)}; first_step, last_step: in which
        it was slow, null if history decided; first_time, last_time: when these began, null where the log
        has no times of day; reach: what is slow together, {", ".join(words.CULPRIT_REACHES)}; slow_host,
        slow_rack: its name where that is the reach; workers: those that it holds, empty where it is one
        worker. From direction on null where a version before 0.4.0 wrote the row
    """,
    own={"culprits": pa.list_(CULPRIT)},
)
CULPRIT_RULES: Final = col.rules(f"""
    -- every culprit has a finite effect, a share of the steps and a pattern
    culprits_are_described: forall(culprits, each -> coalesce({_IS_CULPRIT}, false))
    -- every culprit has a direction, a course, a reach, and its steps in their order or neither; none of
    -- these where an earlier version wrote the row
    culprits_have_their_course: forall(culprits, each -> {_HAS_COURSE})
    -- a culprit has a rank exactly if it is one worker, and a host only then
    one_worker_has_its_rank: forall(culprits, each -> ({_IS_ONE_WORKER}) = (each.rank IS NOT NULL) AND
        (each.rank IS NOT NULL OR each.host IS NULL))
    """)

JOB_CAUSES: Final = Table(
    "job_causes",
    f"One row per replayed unit and cause; {_ONLY_WHERE}. "
    "Estimates from replays: the work stays, its uneven part is removed. "
    "Fractions are of T_actual, as computed, never clipped: a fix may "
    "save less than nothing. None saves more than the step: if the replay is longer than the recorded step "
    "and a fix would save more, all fractions of the unit are scaled down alike. time_saved_fraction and "
    "recoverable_gpu_hours say what fixing this cause alone saves, and must not be added up: one cause can "
    "hide behind another. attributed_fraction and attributed_gpu_hours share out what all fixes together "
    f"save, and may be added up. For the cause {CAUSE_UNEXPLAINED} the former are the further time that "
    "steps would save, after all fixes, without deviations that neither a cause nor the job's noise "
    "explains; its attributed values are 0. lost_fraction and lost_gpu_hours are what the report and the "
    "views call lost: "
    "the recorded step time less that with all causes fixed and without any other deviation beyond the "
    "job's own noise, for analysed units only. "
    "They are never negative, and sum over causes to what the unit loses: a row with is_cause has what is "
    f"attributed to it, {CAUSE_UNEXPLAINED} the rest. A flagged row "
    "still has the best estimate: the flag says why to trust it less.",
    grain=(*UNIT_KEY, "cause"),
    columns=(
        *col.declared(
            f"""
            log_date, job_id, run_id
            cause (text of CAUSES): why the unit may be slow
            is_cause (flag): whether the fix of this cause alone saves enough, with enough evidence
            time_saved_fraction (share): (T_actual - step time with this cause alone fixed) / T_actual
            attributed_fraction (fraction): share of the cause in what all fixes together save, over T_actual
                (Shapley value)
            recoverable_gpu_hours (gpu_hours): gpu_hours x time_saved_fraction; null without gpu_hours
            attributed_gpu_hours (gpu_hours): gpu_hours x attributed_fraction; null without gpu_hours
            lost_fraction (share? >= 0): part of the unit's loss that is due to the cause, over T_actual; null
                unless the unit is analysed
            lost_gpu_hours (gpu_hours >= 0): gpu_hours x lost_fraction; null if either is null
            flag_reason (text? of FLAGS): why to trust the row less than others; null: no reason.
                {JUDGED_BY_HISTORY}: decided by other jobs or earlier days, as the unit's steps could not;
                {NOBODY_LATE}: see nobody_late_steps of job_slowdown
            culprits
            evidence (text -> real): what the row is based on. effect: largest effect, in the unit of the
                culprits' effect; standard_error: of that effect; peers: how many it was compared with;
                samples: ops; indicator: the paper's (M_W, M_S, correlation). A missing number has no key. If
                history decided, also history_runs: runs of the same model it was compared with; history_jobs:
                other jobs in which the host was slow; history_factor: time relative to those; revised_from:
                time_saved_fraction before
            """,
            own={"culprits": CULPRITS, "FLAGS": (*FLAG_REASONS, NOBODY_LATE, JUDGED_BY_HISTORY)},
        ),
        *col.interval(*HOURS_OF),
        *col.declared("""
            diagnosis_error_fraction (fraction? >= 0): part of the half width of these intervals that is due
                to the diagnosis's own error, however much was recorded; it is the same on all days of a run,
                and so adds up over days; null where there is no interval
            interval_freedom (real? [count] >= 1): degrees of freedom of the other part, which is wide if it
                rests on few stretches of steps; a sum has more of them; null where there is no such part, or
                an earlier version wrote the row
            """),
        *col.interval(*HOURS_OF.values(), unit="GPU h"),
        *col.declared(
            """
            unrevised (unrevised?): values of the row before history revised it; null if history did not
                revise it
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
            -- a row without is_cause has no part of what is lost
            what_does_not_hold_loses_nothing: is_cause OR cause = '{CAUSE_UNEXPLAINED}' OR
                coalesce(lost_fraction, 0) = 0
            """),
        *CULPRIT_RULES,
        *col.rules(f"""
            -- evidence has only the keys {", ".join(_KEYS)}; readers ignore others
            evidence_is_known (warns): forall(map_keys(evidence), key -> key IN ({sql_strings(_KEYS)}))
            -- a row flagged {JUDGED_BY_HISTORY}, and only such a row, has revised_from and its values before
            revised_rows_say_so: (unrevised IS NOT NULL) = (coalesce(flag_reason, '') = '{JUDGED_BY_HISTORY}')
                AND (unrevised IS NOT NULL) = coalesce(array_contains(map_keys(evidence), 'revised_from'),
                false)
            """),
    ),
)

JOB_BASELINE: Final = Table(
    "job_baseline",
    "One row per replayed unit: the figures of the unit with which other units of the same model and layout, "
    "and other jobs on the same hosts, are compared if their own steps do not show a cause (job_causes). "
    "The values are never revised.",
    grain=UNIT_KEY,
    columns=col.declared(
        """
        log_date, job_id, run_id
        status (text of REPLAYED_STATUSES): as in job_slowdown
        model (text?): model being trained, from the manifest
        gpu_type (text?): type of the GPUs, from the manifest; all types where workers are on several
        dp_size (size >= 1): replicas
        pp_size (size >= 1): stages
        cp_size (size >= 1): context-parallel size
        vpp_size (size >= 1): model chunks per stage
        world_size (size >= 1): ranks of the run
        ideal (text): how ideal durations were chosen
        simulator_version (text): version of the simulator that wrote the row
        ops_per_step (real [count] >= 0): replayed ops over steps
        actual_step_s (seconds >= 0): as in job_slowdown
        ideal_step_s
        stages (stages): each stage, by pp_rank. usual_compute_s: time of the computes of one of its workers
            in a step, median over steps, then lower median over dp ranks, converted to the fastest type of
            GPU; hosts: of its replayed ranks, each once, null if not logged
        op_types (op_types): op types as in op_type_slowdown. ideal_duration_s: of one op, mean over stages if
            they differ, and over send and recv; for transfers it may be a little below 0, as clocks differ
        slow_hosts (slow_hosts): hosts of workers that the unit's steps show to be always slow, without a
            flag. effect: how much longer their ops take, as a share of the usual time
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
        -- times of stages are finite and not negative, those of op types finite and above -10 ms: clocks that
        -- differ make a transfer end before it has started
        times_are_known: forall(stages, each -> {_is_finite("each.usual_compute_s")}) AND forall(op_types,
            each -> {_is_finite("each.ideal_duration_s", f"> -{CLOCK_NOISE_S}")})
        -- slow hosts have a name and a finite effect
        slow_hosts_are_named: forall(slow_hosts, each -> each.host IS NOT NULL AND
            {_is_finite("each.effect")})
        """),
)
