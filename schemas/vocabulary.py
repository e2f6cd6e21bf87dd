"""Names used in the warehouse: op types, reasons for rejects, statuses, causes, tables and phases.

This module imports only the standard library, so that DAGs, executors and training loops can import it. Op
types are stored as codes, their positions in OP_TYPES, which may therefore only grow at its end.
"""

from enum import StrEnum
from typing import Final, Self

from schemas import causes, op_types


def _values(names: type) -> tuple[str, ...]:
    """Return the values of a class's constants, in the order of their definition."""
    return tuple(value for name, value in vars(names).items() if not name.startswith("_"))


def _since(first: str) -> tuple[str, ...]:
    """Return the text constants that this module has defined so far, beginning with the constant `first`."""
    names = [value for name, value in globals().items() if name.isupper() and isinstance(value, str)]
    return tuple(names[names.index(first) :])


OP_TYPES: Final = tuple(each.name for each in op_types.DECLARED)
"""Op types as the logs spell them; `rank_steps.op` stores the position in this tuple."""

OP_CODES: Final = {name: code for code, name in enumerate(OP_TYPES)}

OP_TYPE_GROUPS: Final = {each.name: each.counted_as for each in op_types.DECLARED if each.counted_as}
"""By op type, the name under which op_type_slowdown counts it; other op types count under their own names."""
COUNTED_OP_TYPES: Final = tuple(dict.fromkeys(OP_TYPE_GROUPS.get(name, name) for name in OP_TYPES))
"""Op types as op_type_slowdown counts them: send and recv of one direction are one."""

ALL_OP_TYPES: Final = "all"
ALL_STAGES: Final = -1
"""Op type and stage in rows of exposed_communication that cover all op types, or all stages."""


class Scope:
    """What a row of exposed_communication covers: the job, a stage, or an op type."""

    JOB: Final = "job"
    STAGE: Final = "stage"
    OP_TYPE: Final = "op_type"


RANK_LOG_FORMAT: Final = "rank-log/1"
PUBLISHED_TRACE_FORMAT: Final = "published-trace"
RUN_EVENTS_FORMAT: Final = "run-events/1"
HEALTH_FORMAT: Final = "health/1"


class RunEvent:
    """Events of a run, as events.jsonl spells them."""

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
"""Events with a duration, during which training stands still."""

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
"""Components of a host that are checked; states of a check that an event reports; severities, worst last."""

KINETO_DATA_PARALLEL: Final = "kineto-dp"
KINETO_PIPELINE: Final = "kineto-pp"
SAMPLING_FORMATS: Final = (KINETO_DATA_PARALLEL, KINETO_PIPELINE)
"""Formats of profilers that often record only some of a job's ranks."""
TRANSFER_OPS: Final = tuple(OP_TYPE_GROUPS)
"""Op types of transfers between pipeline stages."""


class Transfers:
    """Whether transfers in a log were measured, inferred from gaps between computes, or are absent."""

    MEASURED: Final = "measured"
    INFERRED: Final = "inferred"
    ABSENT: Final = "absent"


TRANSFERS: Final = _values(Transfers)


class Status(StrEnum):
    """How far the analysis of a unit went; if several statuses apply, the unit has the first in this order.

    words  : meaning of the status on pages
    advice : what to do about it; its placeholder `again` is the command or action to repeat
    """

    words: str
    advice: str

    def __new__(cls, name: str, words: str = "", advice: str = "") -> Self:
        """Create a status from its name, with the texts that explain it."""
        made = str.__new__(cls, name)
        made._value_, made.words, made.advice = name, words, advice
        return made

    # fmt: off
    UNUSABLE_LOG = ("unusable_log", "log of a tool that cannot be replayed",
        "check what the files lack: straggler convert FOLDER --check")
    STEP_TIMES_ONLY = ("step_times_only", "step times and no ops",
        "record single ops to find the cause: rank logs by the emitter, or torch.profiler")
    NO_MANIFEST = ("no_manifest", "no manifest (job.json)",
        "put a job.json beside the logs, with the job's layout, and {again}")
    BAD_LAYOUT = ("bad_layout", "manifest with a wrong or missing layout, or another wrong field",
        "correct in job.json what status_detail names, and {again}")
    TOO_MANY_RESTARTS = ("too_many_restarts", "too many restarts",
        "give each attempt its own run id, or raise maximum_restarts in the settings")
    NO_OPS = ("no_ops", "no recorded ops",
        "check that the log files of this day are in the landing, and which of their lines were rejected")
    IMPLAUSIBLE_TIMES = ("implausible_times", "times in another unit than microseconds",
        "write start_us and duration_us in microseconds, t0_us in microseconds since 1970")
    CORRUPT_TRACE = ("corrupt_trace", "recorded ops contradict each other",
        "check the ops that the status detail names, because their times or their order are impossible")
    MISSING_WORKERS = ("missing_workers", "no step with all workers",
        "look for workers whose file is missing or was rejected: only steps with all workers are replayed")
    SOME_RANKS = ("some_ranks", "profile of some ranks of the job",
        "profile every rank of the job: a replay needs all ranks")
    ODD_RANKS = ("odd_ranks", "ranks that contradict their peers",
        "check whether the ranks that the status detail names are numbered as job.json's layout says")
    PARTIAL_TRACE = ("partial_trace", "computes without transfers",
        "record sends and receives too: without them a replay does not know who waits for whom")
    TOO_FEW_STEPS = "too_few_steps", "too few steps", "record more steps in a day"
    UNKNOWN_CLOCKS = ("unknown_clocks", "clocks apart by an unknown time",
        "record the transfers between stages, or keep the hosts' clocks together (NTP, PTP)")
    HIGH_DISCREPANCY = ("high_discrepancy", "replay and recording too far apart",
        "look for time that no op covers, such as data loading within a step")
    ANALYSED = "analysed", "analysed"
    FAILED = "failed", "a defect of this software", "report it with the traceback"
    # fmt: on


STATUSES: Final = tuple(map(str, Status))
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
    """Why a line or a file was rejected, in the order in which the reasons are tested."""

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
    UNUSABLE_LOG: Final = str(Status.UNUSABLE_LOG)


REJECT_REASONS: Final = _values(Reason)
FILE_REASONS: Final = REJECT_REASONS[REJECT_REASONS.index(Reason.UNREADABLE_FILE) :]
"""Reasons for whole files; all others are for lines."""

CAUSE_MIXED_HARDWARE: Final = "mixed_hardware"
CAUSE_UNEXPLAINED: Final = "unexplained"
ALL_CAUSES: Final = "all causes"
"""Name of the scenario in which every cause is fixed."""
CAUSES: Final = tuple(each.name for each in causes.DECLARED)
"""Causes of slowness, in the order of the kernel's codes."""
FIXABLE_CAUSES: Final = CAUSES[:-1]
"""Causes with a fix that is replayed: all but `unexplained`."""
LOGGED_CAUSES: Final = tuple(each.name for each in causes.DECLARED if each.only_where)
"""Causes of which a unit has a row only if its log has the records that can show them."""
MACHINE_CAUSES: Final = tuple(each.name for each in causes.DECLARED if each.of_machine)
"""Causes that can lie in a machine, so that another machine would end them; all others lie in the job."""
SPREAD_CAUSES: Final = tuple(each.name for each in causes.DECLARED if each.is_of_job_if_spread)
"""Causes that count as lying in the job unless one host accounts for at least half of them."""

CULPRIT_COURSES: Final = ("always", "from", "until", "comes_and_goes", "grows")
"""How a culprit's slowness changes over the recorded steps, in the order of the kernel's codes."""

CULPRIT_PATTERNS: Final = ("always", "intermittent", "once")
"""In which steps a culprit was slow: in all (always), in one (once), or in some (intermittent)."""

CULPRIT_REACHES: Final = ("worker", "host", "stage", "replica", "link", "rack")
"""Which workers are slow together, in the order of the kernel's codes."""

DIRECTION_BOTH: Final = "both"
COMPUTE_DIRECTIONS: Final = ("forward", "backward")
"""Which ops of a culprit are slow: forward-computes, backward-computes, both, or else one op type."""

EVIDENCE_KEYS: Final = ("effect", "standard_error", "peers", "samples", "indicator")
"""Keys of job_causes.evidence, in the kernel's order; a number that is not known has no key."""

HISTORY_KEYS: Final = ("history_runs", "history_jobs", "history_factor", "revised_from")
"""Further keys of job_causes.evidence, of rows that history revised."""

RANK_STEPS: Final = "rank_steps"
JOBS: Final = "jobs"
REJECTS: Final = "rejects"
SOURCE_FILES: Final = "source_files"
COLLECTIVE_ARRIVAL: Final = "collective_arrival"
RUN_EVENTS: Final = "run_events"
HOST_HEALTH: Final = "host_health"
INGESTED_TABLES: Final = _since(RANK_STEPS)

JOB_SLOWDOWN: Final = "job_slowdown"
STEP_SLOWDOWN: Final = "step_slowdown"
OP_TYPE_SLOWDOWN: Final = "op_type_slowdown"
STAGE_SLOWDOWN: Final = "stage_slowdown"
DP_RANK_SLOWDOWN: Final = "dp_rank_slowdown"
WORKER_SLOWDOWN: Final = "worker_slowdown"
HOST_CLOCK: Final = "host_clock"
JOB_CAUSES: Final = "job_causes"
JOB_BASELINE: Final = "job_baseline"
REPLAY_TABLES: Final = _since(JOB_SLOWDOWN)
"""Every replayed unit has rows in each of these."""

JOB_TIME: Final = "job_time"
GPU_TYPE_SLOWDOWN: Final = "gpu_type_slowdown"
EXPOSED_COMMUNICATION: Final = "exposed_communication"
ROLE_STEP: Final = "role_step"
JOB_POWER: Final = "job_power"
MITIGATIONS: Final = "mitigations"
FURTHER_TABLES: Final = _since(JOB_TIME)
"""Tables in which a replayed unit has rows only if its logs record what the table is about."""
RESULT_TABLES: Final = (*REPLAY_TABLES, *FURTHER_TABLES)

FLEET_DAY: Final = "fleet_day"
CAUSE_DAY: Final = "cause_day"
HOST_DAY: Final = "host_day"
COVERAGE_DAY: Final = "coverage_day"
GROUP_DAY: Final = "group_day"
OP_TYPE_DAY: Final = "op_type_day"
ROLE_ITERATION: Final = "role_iteration"
ROLE_EFFECT: Final = "role_effect"
JOB_MEGAWATTS: Final = "job_megawatts"
POWER_DAY: Final = "power_day"
POWER_IN_PHASE: Final = "power_in_phase"
CAUSE_EVIDENCE: Final = "cause_evidence"
JOB_CHANGES: Final = "job_changes"
FLEET_TABLES: Final = _since(FLEET_DAY)
ROLE_TABLES: Final = (ROLE_ITERATION, ROLE_EFFECT)
"""Tables in which a day has rows only if some of its runs are part of a whole."""

LIVE_SLOWDOWN: Final = "live_slowdown"
LIVE_CAUSES: Final = "live_causes"
LIVE_TABLES: Final = _since(LIVE_SLOWDOWN)
"""Tables of runs in progress; their rows are preliminary and in no publication: readers see the latest."""

PIPELINE_RUNS: Final = "pipeline_runs"
UNIT_FINGERPRINTS: Final = "unit_fingerprints"
PUBLICATIONS: Final = "publications"
PUBLISHED_TABLES: Final = (*INGESTED_TABLES, *RESULT_TABLES, *FLEET_TABLES, UNIT_FINGERPRINTS)
"""Readers see all these as of the latest publication, but other tables as they are."""
TABLE_NAMES: Final = (*PUBLISHED_TABLES, PIPELINE_RUNS, PUBLICATIONS, *LIVE_TABLES)


class Phase:
    """Phases of a night, in the order in which they run: each reads results of earlier phases."""

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
"""Values of publications.phase: the phases of a night, and other operations that publish."""

UNIT_KEY: Final = ("log_date", "job_id", "run_id")
"""Columns that identify a unit of analysis: one run of one job on one log date."""

SLOWER_THAN_BEFORE: Final = 1.1
"""A unit is slower than before if its steps take at least this many times as long as on earlier days."""

NEWS_FRACTION: Final = 0.025
"""A cause that begins or ceases to hold counts as new or gone only if its loss changed by at least this part
of the recorded time, so that a small change across a threshold is no news."""

STRAGGLING_SLOWDOWN: Final = 1.1
"""A unit straggles if its slowdown is at least this (section 4 of the paper)."""

WHOLE_SHARE: Final = 0.5
"""A unit is worker-driven if M_W is above this, and stage-driven if M_S is at least this."""
MOST_SIMILAR_CORRELATION: Final = 0.9
"""A unit is sequence-driven (by sequences of uneven length) if the correlation of forward and backward times
is at least this."""

SIZE_BOUNDS: Final = (128, 256, 512, 1024, 2048, 4096)
SIZE_BUCKETS: Final = ("< 128", "128-255", "256-511", "512-1023", "1024-2047", "2048-4095", ">= 4096")
"""Buckets of jobs by number of GPUs; bucket n contains the numbers below bound n."""
NOT_STATED: Final = "(not stated)"
"""Name of the group of units whose manifests do not state the value."""


class Exit:
    """Exit statuses of all commands; after FAILED, the same command may succeed if it is run again.

    Only `diff` ends with SLOWER. INTERRUPTED (by Ctrl-C, SIGINT) and UNREAD (the reader of the output ended,
    SIGPIPE) are 128 plus the number of the signal.
    """

    DONE: Final = 0
    FAILED: Final = 1
    WRONG_SETTINGS: Final = 2
    GATE_REFUSED: Final = 3
    SLOWER: Final = 4
    INTERRUPTED: Final = 130
    UNREAD: Final = 141


RUN_STARTED: Final = "started"
RUN_KILLED: Final = "killed"
RUN_INTERRUPTED: Final = "interrupted"
RUN_OUTCOMES: Final = (
    "done",
    "failed",
    "wrong_settings",
    "gate_refused",
    RUN_STARTED,
    RUN_KILLED,
    RUN_INTERRUPTED,
)
"""Values of pipeline_runs.outcome. The first four are at the positions of their exit statuses; the others
mean still running, killed, and ended by Ctrl-C."""
