"""The pipeline's own records: inputs of each unit, publications and runs."""

from typing import Final

import pyarrow as pa

from schemas import columns as col
from schemas.table import Column, Table
from schemas.vocabulary import PHASE_NAMES, PUBLISHERS, RUN_OUTCOMES, UNIT_KEY

FILE: Final = pa.struct(
    [("name", pa.string()), ("bytes", pa.int64()), ("modified_us", pa.int64()), ("digest", pa.string())]
)

UNIT_FINGERPRINTS: Final = Table(
    "unit_fingerprints",
    "One row per unit and phase whose rows of the unit are published. Without it, the phase has "
    "to be done again. For aggregate and publish: the unit as it is counted in the tables of its day.",
    grain=(*UNIT_KEY, "stage"),
    partition_by=("log_date", "stage"),  # replaces a phase's days without reading files
    columns=(
        *col.UNIT,
        col.text("stage", "the same as phase; a later version drops it", allowed=PHASE_NAMES),
        col.text("phase", "phase of the night; null in rows of 0.3.0", allowed=PHASE_NAMES, nullable=True),
        col.text(
            "inputs",
            "SHA-256 of what the phase read: the unit's files (names, sizes, contents), or inputs, settings "
            "and version of the phase before; of revise also those of the earlier days that it depends on",
        ),
        col.text("settings", "settings that matter to the phase, as JSON"),
        col.text("version", "version of the phase's code; of simulate the simulator version"),
        col.count("bytes", "bytes of the unit's files"),
        col.count("ops", "ops stored in rank_steps"),
        Column(
            "files",
            "ingest only: the unit's files. name; bytes; modified_us: Unix time of the last change; digest: "
            "SHA-256 of the content, null for a file too large to be hashed",
            pa.list_(FILE),
        ),
    ),
)

PUBLICATIONS: Final = Table(
    "publications",
    "One row per publication: a phase, or upkeep, that replaced rows of one or more tables. The row is "
    "appended after the last table was committed. The tables as of the latest row belong together. Only "
    "ever appended to.",
    grain=("publication",),
    partition_by=(),
    columns=(
        col.count("publication", "number of the publication; the highest is the latest"),
        col.instant("published_at", "when it was complete"),
        col.text(
            "phase",
            "phase that published; upkeep: old rows removed or files compacted; recover: an unfinished one "
            "was undone; begin: the tables as they were before the first publication",
            allowed=PUBLISHERS,
        ),
        Column("log_dates", "days whose rows were replaced", pa.list_(pa.date32())),
        Column(
            "versions",
            "Delta version of every table of the warehouse, by table; a table not listed is empty",
            pa.map_(pa.string(), pa.int64()),
        ),
    ),
)

_WORK: Final = (
    ("seconds", pa.float64()),
    ("units", pa.int64()),
    ("bytes", pa.int64()),
    ("ops", pa.int64()),
    ("gate_seconds", pa.float64()),
    ("expectations", pa.int64()),
    ("released", pa.int64()),
)
REFUSAL: Final = pa.struct(
    [("table", pa.string()), ("expectation", pa.string()), ("rows", pa.int64()), ("meaning", pa.string())]
)

PIPELINE_RUNS: Final = Table(
    "pipeline_runs",
    "One row per run of an entry point that writes, successful or not. It exists from the start of the "
    "run, and completed at its end.",
    grain=("pipeline_run_id",),
    partition_by=(),
    columns=(
        col.text("pipeline_run_id", "UUID of the run"),
        col.text("entry_point", "which entry point, by module name"),
        col.text("arguments", "its arguments, as a shell would take them"),
        Column("log_date", "the log date of its work; null unless exactly one", pa.date32(), nullable=True),
        col.instant("started_at", "when it started"),
        col.seconds(
            "seconds",
            "how long it took, without the start of Spark; null while it runs, and if it was killed",
            minimum=0,
            nullable=True,
        ),
        col.count("rows_in", "rows read; null if not known", nullable=True),
        col.count("rows_out", "rows published; null if nothing was", nullable=True),
        col.text(
            "outcome",
            "how it ended; started: it runs, or was killed and no later writer has marked it killed",
            allowed=RUN_OUTCOMES,
        ),
        Column(
            "stages",
            "the same as phases, with stage for phase; a later version drops it",
            pa.list_(pa.struct([("stage", pa.string()), *_WORK])),
            nullable=True,
        ),
        Column(
            "phases",
            "what each phase of the run worked on: seconds; units; bytes of their files; ops stored; "
            "gate_seconds: seconds of its gates, part of seconds; expectations: checked by its gates; "
            "released: refusals released by hand; null if no phase succeeded, and in rows of 0.3.0",
            pa.list_(pa.struct([("phase", pa.string()), *_WORK])),
            nullable=True,
        ),
        Column(
            "refusals",
            "what gates refused, by table and expectation, and for how many rows; null if nothing was",
            pa.list_(REFUSAL),
            nullable=True,
        ),
        col.texts(
            "accepted",
            "of release_night: refusals (table.expectation) that no longer stop the log date; else null",
            nullable=True,
        ),
        col.text("accepted_by", "who released them; else null", nullable=True),
        col.text("accepted_because", "why; else null", nullable=True),
    ),
)
