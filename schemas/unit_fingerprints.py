"""unit_fingerprints: what each phase made its rows of a unit from."""

from typing import Final

import pyarrow as pa

from schemas.fields import UNIT, count
from schemas.table import Column, Table
from schemas.vocabulary import PHASE_NAMES, UNIT_FINGERPRINTS, UNIT_KEY

FILE: Final = pa.struct(
    [
        ("name", pa.string()),
        ("bytes", pa.int64()),
        ("modified_us", pa.int64()),
        ("digest", pa.string()),
    ]
)

TABLE = Table(
    name=UNIT_FINGERPRINTS,
    meaning=(
        "One row per unit and phase whose rows of the unit are published. Where it is missing, the phase has "
        "to be done again. For aggregate and publish: the unit as it is counted in the tables of its day."
    ),
    grain=(*UNIT_KEY, "stage"),
    partition_by=("log_date", "stage"),  # so that a phase's days are replaced without a look into files
    columns=(
        *UNIT,
        Column("stage", pa.string(), "phase of the night", allowed=PHASE_NAMES),
        Column(
            "inputs",
            pa.string(),
            "SHA-256 of what the phase read: the unit's files (names, sizes, contents), or inputs, settings "
            "and version of the phase before; of revise also those of the days that it looks back on",
        ),
        Column("settings", pa.string(), "settings that matter to the phase, as JSON"),
        Column("version", pa.string(), "version of the phase's code; of simulate the simulator version"),
        count("bytes", "bytes of the unit's files"),
        count("ops", "ops stored in rank_steps"),
        Column(
            "files",
            pa.list_(FILE),
            "ingest only: the unit's files. name; bytes; modified_us: Unix time of the last change; digest: "
            "SHA-256 of the content, null for a file too large to be hashed",
        ),
    ),
)
