"""job_causes: why a unit is slow, cause by cause, and what fixing each would return."""

from typing import Final

import pyarrow as pa

from schemas.fields import GPU_HOURS, LOST_GPU_HOURS, UNIT, described
from schemas.table import Column, Expectation, Table, sql_strings
from schemas.vocabulary import (
    CAUSE_UNEXPLAINED,
    CAUSES,
    CULPRIT_PATTERNS,
    EVIDENCE_KEYS,
    FLAG_REASONS,
    HISTORY_KEYS,
    JOB_CAUSES,
    JUDGED_BY_HISTORY,
    UNIT_KEY,
)

CULPRIT: Final = pa.struct(
    [
        ("pp_rank", pa.int32()),
        ("dp_rank", pa.int32()),
        ("rank", pa.int32()),
        ("host", pa.string()),
        ("effect", pa.float64()),
        ("share_of_steps", pa.float64()),
        ("pattern", pa.string()),
    ]
)

UNREVISED: Final = pa.struct(
    [
        ("is_cause", pa.bool_()),
        ("time_saved_fraction", pa.float64()),
        ("attributed_fraction", pa.float64()),
        ("flag_reason", pa.string()),
        ("culprits", pa.list_(CULPRIT)),
        ("evidence", pa.map_(pa.string(), pa.float64())),
    ]
)
"""The values of a row before history revised it."""

_IS_CULPRIT = (
    "each.effect > double('-Infinity') AND each.effect < double('Infinity')"
    " AND each.share_of_steps BETWEEN 0 AND 1"
    f" AND each.pattern IN ({sql_strings(CULPRIT_PATTERNS)})"
)
_EVIDENCE = (*EVIDENCE_KEYS, *HISTORY_KEYS)
_IS_ONE_WORKER = "each.pp_rank IS NOT NULL AND each.dp_rank IS NOT NULL"

TABLE = Table(
    name=JOB_CAUSES,
    meaning=(
        f"One row per replayed unit and cause, all {len(CAUSES)} of them. Estimates from replays: the work "
        "stays, its uneven part is removed. Fractions are of T_actual, as computed, never clipped: a fix may "
        "save less than nothing. time_saved_fraction and recoverable_gpu_hours say what fixing this cause "
        "alone returns, and must not be added up: one cause can hide behind another. attributed_fraction and "
        "attributed_gpu_hours share out what all fixes together return, and may be added up. Of the cause "
        f"{CAUSE_UNEXPLAINED} the former are what is lost against the paper's ideal and no fix returns; "
        "its attributed values are 0. lost_fraction and lost_gpu_hours are what the report and the views "
        "call lost: the recorded step time less that with all causes fixed, of analysed units only. "
        "They are never negative, and sum over causes to what the unit loses: a row with is_cause has what "
        f"is attributed to it, {CAUSE_UNEXPLAINED} the rest. A flagged row "
        "still has the best estimate: the flag says why to trust it less."
    ),
    grain=(*UNIT_KEY, "cause"),
    columns=(
        *UNIT,
        Column("cause", pa.string(), "why the unit may be slow", allowed=CAUSES),
        Column("is_cause", pa.bool_(), "its fix alone saves enough, with enough evidence"),
        Column(
            "time_saved_fraction",
            pa.float64(),
            "(T_actual - step time with this cause alone fixed) / T_actual",
            unit="fraction",
        ),
        Column(
            "attributed_fraction",
            pa.float64(),
            "its share of what all fixes together save, over T_actual (Shapley value)",
            unit="fraction",
        ),
        described(
            GPU_HOURS, "gpu_hours x time_saved_fraction; null without gpu_hours", name="recoverable_gpu_hours"
        ),
        described(
            GPU_HOURS, "gpu_hours x attributed_fraction; null without gpu_hours", name="attributed_gpu_hours"
        ),
        Column(
            "lost_fraction",
            pa.float64(),
            "its part of what the unit loses, over T_actual; null unless the unit is analysed",
            unit="fraction",
            nullable=True,
            minimum=0,
        ),
        described(LOST_GPU_HOURS, "gpu_hours x lost_fraction; null if either is"),
        Column(
            "flag_reason",
            pa.string(),
            "why to trust the row less than others; null: no reason. "
            f"{JUDGED_BY_HISTORY}: decided by other jobs or earlier days, as the unit's steps could not",
            nullable=True,
            allowed=(*FLAG_REASONS, JUDGED_BY_HISTORY),
        ),
        Column(
            "culprits",
            pa.list_(CULPRIT),
            "who causes it, worst first. pp_rank, dp_rank: null is all; rank, host: of the replayed "
            "rank, null unless it is one worker; effect: how much longer its ops took as a share of the "
            "usual time, for pause, communication and launch_delay seconds lost per step that it struck; "
            f"share_of_steps: in how many steps; pattern: {', '.join(CULPRIT_PATTERNS)}",
        ),
        Column(
            "evidence",
            pa.map_(pa.string(), pa.float64()),
            "what the row is based on. effect: largest effect, in the unit of the culprits' effect; "
            "standard_error: of that effect; peers: how many it was compared with; samples: ops; indicator: "
            "the paper's (M_W, M_S, correlation). A missing number has no key. If history "
            "decided, also history_runs: runs of the same model it was compared with; history_jobs: other "
            "jobs in which the host was slow; history_factor: time relative to those; "
            "revised_from: time_saved_fraction before",
        ),
        Column(
            "unrevised",
            UNREVISED,
            "the row's values before history revised it; null if it did not",
            nullable=True,
        ),
    ),
    expectations=(
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
        Expectation(
            "culprits_are_described",
            f"forall(culprits, each -> coalesce({_IS_CULPRIT}, false))",
            "every culprit has a finite effect, a share of the steps and a pattern",
        ),
        Expectation(
            "one_worker_has_its_rank",
            f"forall(culprits, each -> ({_IS_ONE_WORKER}) = (each.rank IS NOT NULL)"
            " AND (each.rank IS NOT NULL OR each.host IS NULL))",
            "a culprit has a rank exactly if it is one worker, and a host only then",
        ),
        Expectation(
            "evidence_is_known",
            f"forall(map_keys(evidence), key -> key IN ({sql_strings(_EVIDENCE)}))",
            f"evidence has only the keys {', '.join(_EVIDENCE)}; readers ignore others",
            severity="warns",
        ),
        Expectation(
            "revised_rows_say_so",
            f"(unrevised IS NOT NULL) = (coalesce(flag_reason, '') = '{JUDGED_BY_HISTORY}')"
            " AND (unrevised IS NOT NULL) = coalesce(map_contains_key(evidence, 'revised_from'), false)",
            f"a row flagged {JUDGED_BY_HISTORY}, and only such a row, has revised_from and its values before",
        ),
    ),
)
