"""The table exposed_communication: how much communication lengthens steps, and how much computes hide."""

from typing import Final

from schemas import columns as col
from schemas.table import Table
from schemas.vocabulary import ALL_OP_TYPES, ALL_STAGES, COUNTED_OP_TYPES, UNIT_KEY, Scope

EXPOSED_COMMUNICATION: Final = Table(
    "exposed_communication",
    "One row per communication op type, one per stage and one for all communication of a replayed unit; no "
    "rows for a unit that recorded no communication. Seconds are means over its steps. Rows do not add up.",
    grain=(*UNIT_KEY, "op_type", "pp_rank"),
    columns=col.declared(
        f"""
        log_date, job_id, run_id
        scope (text of SCOPES): what the communication belongs to: the whole job, one stage, or one op type
        op_type (text of OP_TYPES): op type, with send and recv of one direction as one type; '{ALL_OP_TYPES}'
            for the job and stages
        pp_rank (number32 >= {ALL_STAGES}): pipeline stage; {ALL_STAGES} for the job and op types
        busy_s (seconds >= 0): time in this communication, summed over the streams of the worker with most of
            it; in steps in which exposed_s is longer (transfers of several workers in turn), exposed_s. May
            exceed the step time, because streams of a worker run at the same time
        exposed_s (seconds >= 0): time by which this communication lengthens the step: replayed step time T
            less the step time replayed with this communication taking no time
        hidden_s (seconds >= 0): busy_s - exposed_s: the part that lengthens no step
        overlap_saved_s (seconds): most time that perfect overlap of this communication saves in a step: T
            less the longer of the replayed step time without it and its busiest stream on one worker
        """,
        own={
            "SCOPES": (Scope.JOB, Scope.STAGE, Scope.OP_TYPE),
            "OP_TYPES": (ALL_OP_TYPES, *COUNTED_OP_TYPES),
        },
    ),
    expectations=col.rules(f"""
        -- busy = exposed + hidden
        busy_is_sum: {col.agree("exposed_s + hidden_s", "busy_s", col.SAME_FORMULA)}
        -- perfect overlap saves no more than what is exposed
        overlap_saves_what_is_exposed: overlap_saved_s <= exposed_s
        -- a row is of one stage, one op type, or the job
        scope_is_key: scope = CASE WHEN pp_rank <> {ALL_STAGES} THEN '{Scope.STAGE}' WHEN op_type <>
            '{ALL_OP_TYPES}' THEN '{Scope.OP_TYPE}' ELSE '{Scope.JOB}' END AND (pp_rank = {ALL_STAGES} OR
            op_type = '{ALL_OP_TYPES}')
        """),
)
