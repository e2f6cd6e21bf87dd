"""Columns of the table exposed_communication."""

from collections.abc import Sequence

from schemas.vocabulary import ALL_OP_TYPES, ALL_STAGES, OP_TYPE_GROUPS, OP_TYPES, Scope
from udfs.kernel.replay.exposed import Exposed
from udfs.kernel.replay.spent import ALL


def exposed_columns(found: Sequence[Exposed]) -> dict[str, list[object]]:
    """Columns of exposed_communication by name; see schemas.exposed_communication."""
    columns: dict[str, list[object]] = {
        "scope": [],
        "op_type": [],
        "pp_rank": [],
        "busy_s": [each.exposed_s + each.hidden_s for each in found],
        "exposed_s": [each.exposed_s for each in found],
        "hidden_s": [each.hidden_s for each in found],
        "overlap_saved_s": [each.saved_s for each in found],
    }
    for (group, stage), *_ in found:
        of_job = Scope.STAGE if stage != ALL else Scope.JOB
        columns["scope"].append(of_job if group == ALL else Scope.OP_TYPE)
        columns["op_type"].append(
            ALL_OP_TYPES if group == ALL else OP_TYPE_GROUPS.get(OP_TYPES[group], OP_TYPES[group])
        )
        columns["pp_rank"].append(ALL_STAGES if stage == ALL else stage)
    return columns
