"""Communication that delays the steps of a unit, and communication hidden behind computes."""

from typing import Final

from schemas import columns as col
from schemas.part_tables import COUNTED_OP_TYPES
from schemas.table import Expectation, Table
from schemas.vocabulary import ALL_OP_TYPES, ALL_STAGES, UNIT_KEY, Scope

EXPOSED_COMMUNICATION: Final = Table(
    "exposed_communication",
    "One row per communication op type, one per stage and one for all communication of a replayed unit; none "
    "where it recorded no communication. Seconds are means over its steps. Rows do not add up.",
    grain=(*UNIT_KEY, "op_type", "pp_rank"),
    columns=(
        *col.UNIT,
        col.text(
            "scope",
            "whose communication: of the whole job, one stage, one op type",
            allowed=(Scope.JOB, Scope.STAGE, Scope.OP_TYPE),
        ),
        col.text(
            "op_type",
            f"op type, send and recv of one direction as one; '{ALL_OP_TYPES}' for the job and stages",
            allowed=(ALL_OP_TYPES, *COUNTED_OP_TYPES),
        ),
        col.number32("pp_rank", f"pipeline stage; {ALL_STAGES} for the job and op types", minimum=ALL_STAGES),
        col.seconds(
            "busy_s",
            "what the worker with most of this communication spends in it, its streams added up, or "
            "exposed_s in steps in which that is longer: transfers of several workers in turn. May be longer "
            "than the step, because streams of a worker run at the same time",
            minimum=0,
        ),
        col.seconds(
            "exposed_s",
            "by how much it lengthens the step: T less the replay in which it takes no time",
            minimum=0,
        ),
        col.seconds("hidden_s", "busy_s - exposed_s: what of it lengthens no step", minimum=0),
        col.seconds(
            "overlap_saved_s",
            "at most so much shorter the step gets if this communication overlaps perfectly: T less the "
            "longer of the replay without it and the busiest stream of it on one worker",
        ),
    ),
    expectations=(
        col.same(
            "busy_is_sum", "exposed_s + hidden_s", "busy_s", col.SAME_FORMULA, "busy = exposed + hidden"
        ),
        Expectation(
            "overlap_saves_what_is_exposed",
            "overlap_saved_s <= exposed_s",
            "perfect overlap saves no more than what is exposed",
        ),
        Expectation(
            "scope_is_key",
            f"scope = CASE WHEN pp_rank <> {ALL_STAGES} THEN '{Scope.STAGE}' "
            f"WHEN op_type <> '{ALL_OP_TYPES}' THEN '{Scope.OP_TYPE}' ELSE '{Scope.JOB}' END "
            f"AND (pp_rank = {ALL_STAGES} OR op_type = '{ALL_OP_TYPES}')",
            "a row is of one stage, one op type, or the job",
        ),
    ),
)
