"""The vocabulary of the warehouse: op types, reject reasons, statuses, causes, table names.

Standard library only, so that DAGs, executors and writers in a training loop can import it.
A code is the position of a name in its tuple; codes are stored, so a tuple may only ever grow at its end.
"""

from typing import Final


def _values(names: type) -> tuple[str, ...]:
    """Values of a class's constants, in the order of their definition."""
    return tuple(value for name, value in vars(names).items() if not name.startswith("_"))


OP_TYPES: Final = (
    "forward-compute",
    "backward-compute",
    "forward-send",
    "forward-recv",
    "backward-send",
    "backward-recv",
    "params-all-gather",
    "grads-reduce-scatter",
    "separate-grads-all-reduce",
    "layernorm-grads-all-reduce",
    "embedding-grads-all-reduce",
    "optimizer-clip-main-grad",
    "optimizer",
    "gc",
    "data-load",
)
"""Op types as the logs spell them; `rank_steps.op` stores the position in this tuple."""

OP_CODES: Final = {name: code for code, name in enumerate(OP_TYPES)}

FORWARD_PP_COMM: Final = "forward-pp-comm"
BACKWARD_PP_COMM: Final = "backward-pp-comm"
OP_TYPE_GROUPS: Final = {
    "forward-send": FORWARD_PP_COMM,
    "forward-recv": FORWARD_PP_COMM,
    "backward-send": BACKWARD_PP_COMM,
    "backward-recv": BACKWARD_PP_COMM,
}
"""Op types that op_type_slowdown counts as one; others count separately."""
COUNTED_OP_TYPES: Final = tuple(dict.fromkeys(OP_TYPE_GROUPS.get(name, name) for name in OP_TYPES))
"""Counted op types: send and recv of one direction as one."""

ALL_OP_TYPES: Final = "all"
ALL_STAGES: Final = -1
"""Op type and stage in rows of exposed_communication that cover all of them."""


class Scope:
    """Scopes of a row of exposed_communication: the job, a stage, or an op type."""

    JOB: Final = "job"
    STAGE: Final = "stage"
    OP_TYPE: Final = "op_type"


RANK_LOG_FORMAT: Final = "rank-log/1"
PUBLISHED_TRACE_FORMAT: Final = "published-trace"
RUN_EVENTS_FORMAT: Final = "run-events/1"
HEALTH_FORMAT: Final = "health/1"


class RunEvent:
    """What happens to a run, as its events file spells it."""

    START: Final = "start"
    FIRST_STEP: Final = "first_step"
    STEP: Final = "step"
    CHECKPOINT: Final = "checkpoint"
    FAILURE: Final = "failure"
    RESTART: Final = "restart"
    STOP: Final = "stop"
    SUBMITTED: Final = "submitted"
    EVALUATION: Final = "evaluation"
    DATA_LOADING: Final = "data_loading"


EVENTS: Final = _values(RunEvent)
STALLS: Final = (RunEvent.CHECKPOINT, RunEvent.EVALUATION, RunEvent.DATA_LOADING)
"""Events with a duration, in which training stops."""

HEALTH_COMPONENTS: Final = ("gpu", "nic", "link", "disk", "node")
HEALTH_STARTS: Final = "starts"
HEALTH_ENDS: Final = "ends"
HEALTH_SAMPLE: Final = "sample"
HEALTH_STATES: Final = (HEALTH_STARTS, HEALTH_ENDS, HEALTH_SAMPLE)
HEALTH_OK: Final = "ok"
HEALTH_INFO: Final = "info"
HEALTH_WARNING: Final = "warning"
HEALTH_ERROR: Final = "error"
HEALTH_FATAL: Final = "fatal"
HEALTH_SEVERITIES: Final = (HEALTH_OK, HEALTH_INFO, HEALTH_WARNING, HEALTH_ERROR, HEALTH_FATAL)
"""What is checked on a host, what an event says about a check, and how bad that is, the worst last."""

KINETO_DATA_PARALLEL: Final = "kineto-dp"
KINETO_PIPELINE: Final = "kineto-pp"
SAMPLING_FORMATS: Final = (KINETO_DATA_PARALLEL, KINETO_PIPELINE)
"""Formats of profilers that are often switched on for some of a job's ranks."""
TRANSFER_OPS: Final = ("forward-send", "forward-recv", "backward-send", "backward-recv")
"""Op types of transfers between pipeline stages."""


class Transfers:
    """Sources of a unit's transfers: recorded, inferred from the gaps between computes, or absent."""

    MEASURED: Final = "measured"
    INFERRED: Final = "inferred"
    ABSENT: Final = "absent"


TRANSFERS: Final = _values(Transfers)


class Status:
    """How far the analysis of a unit came, in the order of the tests: the first that applies."""

    UNUSABLE_LOG: Final = "unusable_log"
    STEP_TIMES_ONLY: Final = "step_times_only"
    NO_MANIFEST: Final = "no_manifest"
    BAD_LAYOUT: Final = "bad_layout"
    TOO_MANY_RESTARTS: Final = "too_many_restarts"
    NO_OPS: Final = "no_ops"
    IMPLAUSIBLE_TIMES: Final = "implausible_times"
    CORRUPT_TRACE: Final = "corrupt_trace"
    MISSING_WORKERS: Final = "missing_workers"
    SOME_RANKS: Final = "some_ranks"
    ODD_RANKS: Final = "odd_ranks"
    PARTIAL_TRACE: Final = "partial_trace"
    TOO_FEW_STEPS: Final = "too_few_steps"
    UNKNOWN_CLOCKS: Final = "unknown_clocks"
    HIGH_DISCREPANCY: Final = "high_discrepancy"
    ANALYSED: Final = "analysed"
    FAILED: Final = "failed"


STATUSES: Final = _values(Status)
REPLAYED_STATUSES: Final = (
    Status.TOO_FEW_STEPS,
    Status.UNKNOWN_CLOCKS,
    Status.HIGH_DISCREPANCY,
    Status.ANALYSED,
)
"""Units with these statuses were replayed and have rows in every result table."""

TIMED_STATUSES: Final = (Status.STEP_TIMES_ONLY, Status.SOME_RANKS)
"""Units with these statuses have recorded step times and were not replayed."""


class Reason:
    """Why a line or a file was not stored, in the order of the tests."""

    LINE_TOO_LONG: Final = "line_too_long"
    NOT_JSON: Final = "not_json"
    NESTED_TOO_DEEPLY: Final = "nested_too_deeply"
    MISSING_FIELD: Final = "missing_field"
    BAD_TYPE: Final = "bad_type"
    UNKNOWN_OP: Final = "unknown_op"
    ARRAY_LENGTH: Final = "array_length"
    NEGATIVE_TIME: Final = "negative_time"
    NOT_FINITE: Final = "not_finite"
    RANK_OUT_OF_RANGE: Final = "rank_out_of_range"
    IDENTITY_MISMATCH: Final = "identity_mismatch"
    CONTESTED_RANK_STEP: Final = "contested_rank_step"
    DUPLICATE_RANK_STEP: Final = "duplicate_rank_step"
    UNREADABLE_FILE: Final = "unreadable_file"
    FILE_TOO_LARGE: Final = "file_too_large"
    TOO_MANY_FILES: Final = "too_many_files"
    TOO_MANY_REJECTS: Final = "too_many_rejects"
    UNKNOWN_FORMAT: Final = "unknown_format"
    UNUSABLE_LOG: Final = Status.UNUSABLE_LOG


REJECT_REASONS: Final = _values(Reason)
FILE_REASONS: Final = (
    Reason.UNREADABLE_FILE,
    Reason.FILE_TOO_LARGE,
    Reason.TOO_MANY_FILES,
    Reason.TOO_MANY_REJECTS,
    Reason.UNKNOWN_FORMAT,
    Reason.UNUSABLE_LOG,
)
"""Reasons for whole files; all others are for lines."""

CAUSE_MIXED_HARDWARE: Final = "mixed_hardware"
CAUSE_UNEXPLAINED: Final = "unexplained"
ALL_CAUSES: Final = "all causes"
"""Scenario in which every cause is fixed: its saving is the unit's loss."""
CAUSES: Final = (
    "slow_worker",
    "stage_imbalance",
    "data_imbalance",
    "pause",
    "communication",
    "launch_delay",
    "data_loading",
    CAUSE_MIXED_HARDWARE,
    CAUSE_UNEXPLAINED,
)
"""Why a job is slow, in the order of the kernel's codes; each but the last has a fix that is replayed."""
LOGGED_CAUSES: Final = ("data_loading", CAUSE_MIXED_HARDWARE)
"""A unit has rows of these only where its log can show them."""
MACHINE_CAUSES: Final = ("slow_worker", "communication")
"""Causes that another machine would not have, if their culprit is a machine; the other causes lie in the job.
"""

FLAG_REASONS: Final = (
    "few_steps",
    "few_peers",
    "slow_worker_or_stage_imbalance",
    "slow_worker_or_data_imbalance",
    "no_usual_transfer",
    "many_slow_workers",
    "clock_skew",
    "mostly_unexplained",
    "high_discrepancy",
    "mixed_hardware_or_stage_imbalance",
    "mixed_hardware_or_slow_worker",
)
"""Why to trust a cause less than others, in the order of the kernel's codes from 1 on (0: no reason)."""

JUDGED_BY_HISTORY: Final = "judged_by_history"
"""Flag of a cause decided by other jobs or earlier days, because the unit's steps could not."""

CULPRIT_COURSES: Final = ("always", "from", "until", "comes_and_goes", "grows")
"""How the slowness of a culprit goes over the recorded steps, in the order of the kernel's codes."""
NOBODY_LATE: Final = "nobody_late"
"""Flag of a cause in a unit where all workers wait for long in steps in which no worker is late."""

CULPRIT_PATTERNS: Final = ("always", "intermittent", "once")
"""In which steps a culprit was slow: all steps of the course `always`, a single step, or others."""

CULPRIT_REACHES: Final = ("worker", "host", "stage", "replica", "link", "rack")
"""Which workers are slow together, in the order of the kernel's codes."""

DIRECTION_BOTH: Final = "both"
COMPUTE_DIRECTIONS: Final = ("forward", "backward")
"""Which ops of a culprit are slow: forward-computes, backward-computes, both, or another op type by its name.
"""

EVIDENCE_KEYS: Final = ("effect", "standard_error", "peers", "samples", "indicator")
"""Evidence of a diagnosis, in the kernel's order; a missing number has no key."""

HISTORY_KEYS: Final = ("history_runs", "history_jobs", "history_factor", "revised_from")
"""Evidence added when history decided."""

RANK_STEPS: Final = "rank_steps"
JOBS: Final = "jobs"
REJECTS: Final = "rejects"
SOURCE_FILES: Final = "source_files"
COLLECTIVE_ARRIVAL: Final = "collective_arrival"
RUN_EVENTS: Final = "run_events"
HOST_HEALTH: Final = "host_health"
JOB_SLOWDOWN: Final = "job_slowdown"
STEP_SLOWDOWN: Final = "step_slowdown"
OP_TYPE_SLOWDOWN: Final = "op_type_slowdown"
STAGE_SLOWDOWN: Final = "stage_slowdown"
DP_RANK_SLOWDOWN: Final = "dp_rank_slowdown"
WORKER_SLOWDOWN: Final = "worker_slowdown"
HOST_CLOCK: Final = "host_clock"
EXPOSED_COMMUNICATION: Final = "exposed_communication"
JOB_CAUSES: Final = "job_causes"
JOB_BASELINE: Final = "job_baseline"
GPU_TYPE_SLOWDOWN: Final = "gpu_type_slowdown"
JOB_TIME: Final = "job_time"
JOB_POWER: Final = "job_power"
MITIGATIONS: Final = "mitigations"
JOB_MEGAWATTS: Final = "job_megawatts"
POWER_DAY: Final = "power_day"
POWER_IN_PHASE: Final = "power_in_phase"
ROLE_STEP: Final = "role_step"
FLEET_DAY: Final = "fleet_day"
CAUSE_DAY: Final = "cause_day"
HOST_DAY: Final = "host_day"
COVERAGE_DAY: Final = "coverage_day"
GROUP_DAY: Final = "group_day"
OP_TYPE_DAY: Final = "op_type_day"
ROLE_ITERATION: Final = "role_iteration"
ROLE_EFFECT: Final = "role_effect"
CAUSE_EVIDENCE: Final = "cause_evidence"
JOB_CHANGES: Final = "job_changes"
LIVE_SLOWDOWN: Final = "live_slowdown"
LIVE_CAUSES: Final = "live_causes"
PIPELINE_RUNS: Final = "pipeline_runs"
UNIT_FINGERPRINTS: Final = "unit_fingerprints"
PUBLICATIONS: Final = "publications"

INGESTED_TABLES: Final = (
    RANK_STEPS,
    JOBS,
    REJECTS,
    SOURCE_FILES,
    COLLECTIVE_ARRIVAL,
    RUN_EVENTS,
    HOST_HEALTH,
)
REPLAY_TABLES: Final = (
    JOB_SLOWDOWN,
    STEP_SLOWDOWN,
    OP_TYPE_SLOWDOWN,
    STAGE_SLOWDOWN,
    DP_RANK_SLOWDOWN,
    WORKER_SLOWDOWN,
    HOST_CLOCK,
    JOB_CAUSES,
    JOB_BASELINE,
)
"""Every replayed unit has rows in each of these."""
FURTHER_TABLES: Final = (
    JOB_TIME,
    GPU_TYPE_SLOWDOWN,
    EXPOSED_COMMUNICATION,
    ROLE_STEP,
    JOB_POWER,
    MITIGATIONS,
)
"""A replayed unit has rows in these only where its logs hold the needed records."""
RESULT_TABLES: Final = (*REPLAY_TABLES, *FURTHER_TABLES)
ROLE_TABLES: Final = (ROLE_ITERATION, ROLE_EFFECT)
"""Days have rows in these only where several runs form a whole."""
FLEET_TABLES: Final = (
    FLEET_DAY,
    CAUSE_DAY,
    HOST_DAY,
    COVERAGE_DAY,
    GROUP_DAY,
    OP_TYPE_DAY,
    *ROLE_TABLES,
    JOB_MEGAWATTS,
    POWER_DAY,
    POWER_IN_PHASE,
    CAUSE_EVIDENCE,
    JOB_CHANGES,
)
PUBLISHED_TABLES: Final = (*INGESTED_TABLES, *RESULT_TABLES, *FLEET_TABLES, UNIT_FINGERPRINTS)
"""Readers see these as of the latest publication, all together; the logs and live tables in their latest
version."""
LIVE_TABLES: Final = (LIVE_SLOWDOWN, LIVE_CAUSES)
"""Tables of runs in progress: preliminary, so no publication has them, and readers see each in its latest
version."""
TABLE_NAMES: Final = (*PUBLISHED_TABLES, PIPELINE_RUNS, PUBLICATIONS, *LIVE_TABLES)


class Phase:
    """The phases of a night, in the order in which they build on each other."""

    INGEST: Final = "ingest"
    SIMULATE: Final = "simulate"
    REVISE: Final = "revise"
    AGGREGATE: Final = "aggregate"
    PUBLISH: Final = "publish"


PHASE_NAMES: Final = _values(Phase)
UPKEEP: Final = "upkeep"
RECOVER: Final = "recover"
BEGIN: Final = "begin"
PUBLISHERS: Final = (*PHASE_NAMES, UPKEEP, RECOVER, BEGIN)
"""Phases of publications: those of a night, and others that publish."""

UNIT_KEY: Final = ("log_date", "job_id", "run_id")
"""One unit of analysis: one run of one job on one log date."""

SLOWER_THAN_BEFORE: Final = 1.1
"""A unit whose steps take this many times as long as on earlier days is slower than before."""

NEWS_FRACTION: Final = 0.025
"""A cause is new, or gone, if its loss changed by at least this part of the recorded time; crossing a
threshold is not enough."""

STRAGGLING_SLOWDOWN: Final = 1.1
"""A job straggles from this slowdown on (section 4 of the paper)."""

WHOLE_SHARE: Final = 0.5
"""Slow workers drive a job's slowness if M_W is above this, the last stage if M_S is at least this."""
MOST_SIMILAR_CORRELATION: Final = 0.9
"""Sequences of uneven length drive a job's slowness if the correlation of forward and backward times is at
least this."""

SIZE_BOUNDS: Final = (128, 256, 512, 1024, 2048, 4096)
SIZE_BUCKETS: Final = ("< 128", "128-255", "256-511", "512-1023", "1024-2047", "2048-4095", ">= 4096")
"""Jobs by number of GPUs: each bucket ends before its bound."""
NOT_STATED: Final = "(not stated)"
"""Group of units whose manifest does not state the value."""


class Exit:
    """Exit statuses of every entry point; a retry can help only after FAILED.

    SLOWER belongs to `diff` alone.
    """

    DONE: Final = 0
    FAILED: Final = 1
    WRONG_SETTINGS: Final = 2
    GATE_REFUSED: Final = 3
    SLOWER: Final = 4


RUN_STARTED: Final = "started"
RUN_KILLED: Final = "killed"
RUN_OUTCOMES: Final = ("done", "failed", "wrong_settings", "gate_refused", RUN_STARTED, RUN_KILLED)
"""How a run ended, in pipeline_runs: the position is the exit status; after those: still running, and killed.
"""
