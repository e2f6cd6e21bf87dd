"""publications: which version of each table readers may see, one row per publication."""

import pyarrow as pa

from schemas.fields import count
from schemas.table import Column, Table
from schemas.vocabulary import PUBLICATIONS, PUBLISHERS

TABLE = Table(
    name=PUBLICATIONS,
    meaning=(
        "One row per publication: a phase, or upkeep, that replaced rows of one or more tables. The row is "
        "appended after the last table was committed. The tables as of the latest row belong together. Only "
        "ever appended to."
    ),
    grain=("publication",),
    partition_by=(),
    columns=(
        count("publication", "number of the publication; the highest is the latest"),
        Column("published_at", pa.timestamp("us", tz="UTC"), "when it was complete"),
        Column(
            "phase",
            pa.string(),
            "what published; upkeep: old rows removed or files compacted; recover: an unfinished publication "
            "was taken back; begin: the tables as they were before the first publication",
            allowed=PUBLISHERS,
        ),
        Column("log_dates", pa.list_(pa.date32()), "days whose rows were replaced"),
        Column(
            "versions",
            pa.map_(pa.string(), pa.int64()),
            "Delta version of every table of the warehouse, by table; a table that is not named is empty",
        ),
    ),
)
