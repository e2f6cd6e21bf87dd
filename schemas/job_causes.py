"""job_causes: why a unit is slow, cause by cause; job_baseline: its usual times, which judge later units."""

from typing import Final

import pyarrow as pa

from schemas import columns as col
from schemas.table import Column, Expectation, Table, sql_strings
from schemas.vocabulary import (
    CAUSE_UNEXPLAINED,
    CAUSES,
    COMPUTE_DIRECTIONS,
    CULPRIT_COURSES,
    CULPRIT_PATTERNS,
    CULPRIT_REACHES,
    DIRECTION_BOTH,
    EVIDENCE_KEYS,
    FLAG_REASONS,
    HISTORY_KEYS,
    JUDGED_BY_HISTORY,
    NOBODY_LATE,
    OP_TYPES,
    REPLAYED_STATUSES,
    UNIT_KEY,
)

CLOCK_NOISE_S: Final = 0.01
"""A transfer may seem to end this long before its start; beyond that the replay takes 0. [s]"""

_WORKER: Final = (
    ("pp_rank", pa.int32()),
    ("dp_rank", pa.int32()),
    ("rank", pa.int32()),
    ("host", pa.string()),
)
HOURS_OF: Final = {
    "time_saved_fraction": "recoverable_gpu_hours",
    "attributed_fraction": "attributed_gpu_hours",
    "lost_fraction": "lost_gpu_hours",
}
"""What has an interval, and its column in GPU-hours."""
CULPRIT: Final = pa.struct(
    [
        *_WORKER,
        ("effect", pa.float64()),
        ("lost_s", pa.float64()),
        ("share_of_steps", pa.float64()),
        ("pattern", pa.string()),
        ("direction", pa.string()),
        ("course", pa.string()),
        ("first_step", pa.int64()),
        ("last_step", pa.int64()),
        ("first_time", pa.timestamp("us", tz="UTC")),
        ("last_time", pa.timestamp("us", tz="UTC")),
        ("reach", pa.string()),
        ("slow_host", pa.string()),
        ("slow_rack", pa.string()),
        ("workers", pa.list_(pa.struct(_WORKER))),
    ]
)
_DIRECTIONS: Final = (DIRECTION_BOTH, *COMPUTE_DIRECTIONS, *OP_TYPES)
_EVIDENCE: Final = pa.map_(pa.string(), pa.float64())
UNREVISED: Final = pa.struct(
    [
        ("is_cause", pa.bool_()),
        ("time_saved_fraction", pa.float64()),
        ("attributed_fraction", pa.float64()),
        ("flag_reason", pa.string()),
        ("culprits", pa.list_(CULPRIT)),
        ("evidence", _EVIDENCE),
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
    f" AND each.pattern IN ({sql_strings(CULPRIT_PATTERNS)})"
)
# A unit that an earlier version simulated stays beside those of its day that come late.
_HAS_COURSE: Final = (
    "coalesce(each.direction, each.course, each.reach) IS NULL OR"
    f" coalesce(each.direction IN ({sql_strings(_DIRECTIONS)})"
    f" AND each.course IN ({sql_strings(CULPRIT_COURSES)})"
    f" AND each.reach IN ({sql_strings(CULPRIT_REACHES)}), false)"
    " AND coalesce(each.first_step <= each.last_step, each.first_step IS NULL AND each.last_step IS NULL)"
)
_KEYS: Final = (*EVIDENCE_KEYS, *HISTORY_KEYS)
_IS_ONE_WORKER: Final = "each.pp_rank IS NOT NULL AND each.dp_rank IS NOT NULL"

CULPRITS: Final = Column(
    "culprits",
    "workers behind the cause, worst first. pp_rank, dp_rank: null: all; rank, host: of the replayed "
    "rank, null unless it is one worker, the host that of 90 % of the steps from first_step to "
    "last_step, else null; effect: how much longer its ops took as a share of the "
    "usual time, for pause, communication, launch_delay and data_loading seconds lost per step that "
    "it struck; lost_s: what its ops took longer in the mean step, all together, in seconds, null "
    "where it is not known; share_of_steps: in how many steps; "
    f"pattern: {', '.join(CULPRIT_PATTERNS)}; direction: what is slow, {DIRECTION_BOTH} (forwards "
    f"and backwards), {', '.join(COMPUTE_DIRECTIONS)} or an op type; course: over the steps, "
    f"{', '.join(CULPRIT_COURSES)}; first_step, last_step: in which it was slow, null if history "
    "decided; first_time, last_time: when these began, null where the log has no times of day; "
    f"reach: what is slow together, {', '.join(CULPRIT_REACHES)}; slow_host, slow_rack: its name "
    "where that is the reach; workers: those that it holds, empty where it is one worker. From "
    "direction on null where a version before 0.4.0 wrote the row",
    pa.list_(CULPRIT),
)
CULPRIT_RULES: Final = (
    Expectation(
        "culprits_are_described",
        f"forall(culprits, each -> coalesce({_IS_CULPRIT}, false))",
        "every culprit has a finite effect, a share of the steps and a pattern",
    ),
    Expectation(
        "culprits_have_their_course",
        f"forall(culprits, each -> {_HAS_COURSE})",
        "every culprit has a direction, a course, a reach, and its steps in their order or neither; none "
        "of these where an earlier version wrote the row",
    ),
    Expectation(
        "one_worker_has_its_rank",
        f"forall(culprits, each -> ({_IS_ONE_WORKER}) = (each.rank IS NOT NULL)"
        " AND (each.rank IS NOT NULL OR each.host IS NULL))",
        "a culprit has a rank exactly if it is one worker, and a host only then",
    ),
)

JOB_CAUSES: Final = Table(
    "job_causes",
    "One row per replayed unit and cause; of data_loading only where the log has data-loads, "
    "of mixed_hardware only where workers are on two known types of GPU. "
    "Estimates from replays: the work stays, its uneven part is removed. "
    "Fractions are of T_actual, as computed, never clipped: a fix may "
    "save less than nothing. None saves more than the step: where the replay is longer than the recorded "
    "step and one would, all fractions of the unit are scaled down alike. "
    "time_saved_fraction and recoverable_gpu_hours say what fixing this cause "
    "alone saves, and must not be added up: one cause can hide behind another. attributed_fraction and "
    "attributed_gpu_hours share out what all fixes together return, and may be added up. Of the cause "
    f"{CAUSE_UNEXPLAINED} the former are what steps would take less, beside all fixes, without deviations "
    "that no cause explains and the job's noise does not either; its attributed values are 0. "
    "lost_fraction and lost_gpu_hours are what the report and the views call lost: the recorded step time "
    "less that with all causes fixed and without any other deviation beyond the job's own noise, of analysed "
    "units only. "
    "They are never negative, and sum over causes to what the unit loses: a row with is_cause has what "
    f"is attributed to it, {CAUSE_UNEXPLAINED} the rest. A flagged row "
    "still has the best estimate: the flag says why to trust it less.",
    grain=(*UNIT_KEY, "cause"),
    columns=(
        *col.UNIT,
        col.text("cause", "why the unit may be slow", allowed=CAUSES),
        col.flag("is_cause", "its fix alone saves enough, with enough evidence"),
        col.share("time_saved_fraction", "(T_actual - step time with this cause alone fixed) / T_actual"),
        col.fraction(
            "attributed_fraction", "its share of what all fixes together save, over T_actual (Shapley value)"
        ),
        col.gpu_hours("recoverable_gpu_hours", "gpu_hours x time_saved_fraction; null without gpu_hours"),
        col.gpu_hours("attributed_gpu_hours", "gpu_hours x attributed_fraction; null without gpu_hours"),
        col.share(
            "lost_fraction",
            "its part of what the unit loses, over T_actual; null unless the unit is analysed",
            nullable=True,
            minimum=0,
        ),
        col.gpu_hours("lost_gpu_hours", "gpu_hours x lost_fraction; null if either is", minimum=0),
        col.text(
            "flag_reason",
            "why to trust the row less than others; null: no reason. "
            f"{JUDGED_BY_HISTORY}: decided by other jobs or earlier days, as the unit's steps could not; "
            f"{NOBODY_LATE}: see nobody_late_steps of job_slowdown",
            nullable=True,
            allowed=(*FLAG_REASONS, NOBODY_LATE, JUDGED_BY_HISTORY),
        ),
        CULPRITS,
        Column(
            "evidence",
            "what the row is based on. effect: largest effect, in the unit of the culprits' effect; "
            "standard_error: of that effect; peers: how many it was compared with; samples: ops; indicator: "
            "the paper's (M_W, M_S, correlation). A missing number has no key. If history "
            "decided, also history_runs: runs of the same model it was compared with; history_jobs: other "
            "jobs in which the host was slow; history_factor: time relative to those; "
            "revised_from: time_saved_fraction before",
            _EVIDENCE,
        ),
        *col.interval(*HOURS_OF),
        col.fraction(
            "diagnosis_error_fraction",
            "part of the half width of these intervals that the diagnosis's own error makes, whatever was "
            "recorded: the same on all days of a run, so that it adds up; null where there is no interval",
            nullable=True,
            minimum=0,
        ),
        *col.interval(*HOURS_OF.values(), unit="GPU h"),
        Column(
            "unrevised",
            "the row's values before history revised it; null if it did not",
            UNREVISED,
            nullable=True,
        ),
    ),
    expectations=(
        col.in_order(*HOURS_OF),
        Expectation(
            "nothing_attributed_to_unexplained",
            f"cause <> '{CAUSE_UNEXPLAINED}' OR attributed_fraction = 0",
            f"{CAUSE_UNEXPLAINED} has no fix, and so no share of what fixes save",
        ),
        Expectation(
            "gpu_hours_of_both_or_neither",
            "(recoverable_gpu_hours IS NULL) = (attributed_gpu_hours IS NULL)",
            "recoverable and attributed GPU-hours exist together",
        ),
        Expectation(
            "what_does_not_hold_loses_nothing",
            f"is_cause OR cause = '{CAUSE_UNEXPLAINED}' OR coalesce(lost_fraction, 0) = 0",
            "a row without is_cause has no part of what is lost",
        ),
        *CULPRIT_RULES,
        Expectation(
            "evidence_is_known",
            f"forall(map_keys(evidence), key -> key IN ({sql_strings(_KEYS)}))",
            f"evidence has only the keys {', '.join(_KEYS)}; readers ignore others",
            severity="warns",
        ),
        Expectation(
            "revised_rows_say_so",
            f"(unrevised IS NOT NULL) = (coalesce(flag_reason, '') = '{JUDGED_BY_HISTORY}')"
            " AND (unrevised IS NOT NULL)"
            " = coalesce(array_contains(map_keys(evidence), 'revised_from'), false)",
            f"a row flagged {JUDGED_BY_HISTORY}, and only such a row, has revised_from and its values before",
        ),
    ),
)

_STAGE: Final = pa.struct(
    [("pp_rank", pa.int32()), ("usual_compute_s", pa.float64()), ("hosts", pa.list_(pa.string()))]
)
_OP_TYPE: Final = pa.struct([("op_type", pa.string()), ("ideal_duration_s", pa.float64())])
_SLOW_HOST: Final = pa.struct([("host", pa.string()), ("effect", pa.float64())])

JOB_BASELINE: Final = Table(
    "job_baseline",
    "One row per replayed unit: the few numbers that judge other units of the same model and layout, and "
    "other jobs on the same hosts, when their steps cannot decide (job_causes). Its values are "
    "never revised.",
    grain=UNIT_KEY,
    columns=(
        *col.UNIT,
        col.text("status", "as in job_slowdown", allowed=REPLAYED_STATUSES),
        col.text("model", "model being trained, from the manifest", nullable=True),
        col.text("gpu_type", "from the manifest; all types where workers are on several", nullable=True),
        col.size("dp_size", "replicas", minimum=1),
        col.size("pp_size", "stages", minimum=1),
        col.size("cp_size", "context-parallel size", minimum=1),
        col.size("vpp_size", "model chunks per stage", minimum=1),
        col.size("world_size", "ranks of the run", minimum=1),
        col.text("ideal", "how ideal durations were chosen"),
        col.text("simulator_version", "version of the simulator that wrote the row"),
        col.real("ops_per_step", "replayed ops over steps", unit="count", minimum=0),
        col.seconds("actual_step_s", "as in job_slowdown", minimum=0),
        col.IDEAL_STEP,
        Column(
            "stages",
            "each stage, by pp_rank. usual_compute_s: time of the computes of one of its workers in a "
            "step, median over steps, then lower median over dp ranks, on a slower type of GPU as on the "
            "fastest; hosts: of its replayed ranks, each "
            "once, null if not logged",
            pa.list_(_STAGE),
        ),
        Column(
            "op_types",
            "op types as in op_type_slowdown. ideal_duration_s: of one op, mean over stages if they "
            "differ, and over send and recv; of transfers it may be a little below 0, as clocks differ",
            pa.list_(_OP_TYPE),
        ),
        Column(
            "slow_hosts",
            "hosts of workers that the unit's steps show to be always slow, without a flag. effect: "
            "how much longer their ops take, as a share of the usual time",
            pa.list_(_SLOW_HOST),
        ),
    ),
    expectations=(
        Expectation("every_stage_is_there", "size(stages) = pp_size", "one entry per stage"),
        Expectation(
            "times_are_known",
            f"forall(stages, each -> {_is_finite('each.usual_compute_s')})"
            f" AND forall(op_types, each -> {_is_finite('each.ideal_duration_s', f'> -{CLOCK_NOISE_S}')})",
            "times of stages are finite and not negative, those of op types finite and above -10 ms: clocks "
            "that differ make a transfer end before it has started",
        ),
        Expectation(
            "slow_hosts_are_named",
            f"forall(slow_hosts, each -> each.host IS NOT NULL AND {_is_finite('each.effect')})",
            "slow hosts have a name and a finite effect",
        ),
    ),
)
