"""rejects: every line or file of the landing that was not stored, with the reason."""

import pyarrow as pa

from schemas.fields import SOURCE_FILE, UNIT
from schemas.table import Column, Expectation, Table, sql_strings
from schemas.vocabulary import FILE_REASONS, REJECT_REASONS, REJECTS, UNIT_KEY

TABLE = Table(
    name=REJECTS,
    meaning="One row per rejected line or file. A rejected line costs its rank's step and nothing else.",
    grain=(*UNIT_KEY, "source_file", "line"),
    columns=(
        *UNIT,
        SOURCE_FILE,
        Column(
            "line", pa.int64(), "1-based, blank lines counted; null: the whole file", nullable=True, minimum=1
        ),
        Column("reason", pa.string(), "why, the first that applies", allowed=REJECT_REASONS),
        Column("detail", pa.string(), "what was wrong, in a sentence"),
        Column("text", pa.string(), "the line's first 2,000 characters; null: the whole file", nullable=True),
    ),
    expectations=(
        Expectation(
            "only_files_have_no_line",
            f"(line IS NULL) = (reason IN ({sql_strings(FILE_REASONS)}))",
            "line is null exactly for a whole file",
        ),
        Expectation(
            "text_is_cut",
            "text IS NULL OR length(text) <= 2000",
            "text has at most 2,000 characters; more only takes space: no figure uses it",
            severity="warns",
        ),
    ),
)
