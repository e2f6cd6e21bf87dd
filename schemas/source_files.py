"""source_files: the count of lines, file by file."""

from dataclasses import replace

import pyarrow as pa

from schemas.fields import SOURCE_FILE, UNIT, count
from schemas.table import Column, Expectation, Table
from schemas.vocabulary import SOURCE_FILES, UNIT_KEY

TABLE = Table(
    name=SOURCE_FILES,
    meaning=(
        "One row per file of logs read. For every readable file of lines: lines = rows + rejects, the lines "
        "counted by the text reader, not by the parser."
    ),
    grain=(*UNIT_KEY, "source_file"),
    columns=(
        *UNIT,
        SOURCE_FILE,
        replace(count("bytes", "size of the file"), unit="B"),
        Column(
            "lines",
            pa.int64(),
            "lines that are not blank; null: not readable to its end, or not made of lines",
            unit="count",
            nullable=True,
            minimum=0,
        ),
        count("rows", "rows of rank_steps that came from it"),
        count("rejects", "rows of rejects that name it"),
    ),
    expectations=(
        Expectation(
            "every_line_is_accounted_for",
            "lines IS NULL OR lines = rows + rejects",
            "lines = rows stored + rejects",
        ),
    ),
)
