"""op_type_slowdown: how much one op type alone slows a unit."""

import pyarrow as pa

from schemas.fields import SLOWDOWN, UNIT, WASTE_FRACTION, described, waste_of
from schemas.table import Column, Table
from schemas.vocabulary import OP_TYPE_GROUPS, OP_TYPE_SLOWDOWN, OP_TYPES, UNIT_KEY

COUNTED_OP_TYPES = tuple(dict.fromkeys(OP_TYPE_GROUPS.get(name, name) for name in OP_TYPES))
"""Op types of this table: send and recv of one direction count as one."""

TABLE = Table(
    name=OP_TYPE_SLOWDOWN,
    meaning="One row per op type of a replayed unit.",
    grain=(*UNIT_KEY, "op_type"),
    columns=(
        *UNIT,
        Column(
            "op_type", pa.string(), "op type; send and recv of one direction as one", allowed=COUNTED_OP_TYPES
        ),
        described(
            SLOWDOWN, "step time with this op type as recorded and all else ideal, over T_ideal (S_t, Eq. 2)"
        ),
        WASTE_FRACTION,
    ),
    expectations=(waste_of(),),
)
