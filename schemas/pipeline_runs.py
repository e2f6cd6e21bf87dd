"""pipeline_runs: every run of an entry point that writes tables."""

from typing import Final

import pyarrow as pa

from schemas.fields import LOG_DATE, count, described
from schemas.table import Column, Table
from schemas.vocabulary import PIPELINE_RUNS, RUN_OUTCOMES

PHASE_WORK: Final = pa.struct(
    [
        ("stage", pa.string()),
        ("seconds", pa.float64()),
        ("units", pa.int64()),
        ("bytes", pa.int64()),
        ("ops", pa.int64()),
        ("gate_seconds", pa.float64()),
        ("expectations", pa.int64()),
        ("released", pa.int64()),
    ]
)

REFUSAL: Final = pa.struct(
    [
        ("table", pa.string()),
        ("expectation", pa.string()),
        ("rows", pa.int64()),
        ("meaning", pa.string()),
    ]
)

TABLE = Table(
    name=PIPELINE_RUNS,
    meaning=(
        "One row per run of an entry point that writes, successful or not. It is there from the start of the "
        "run, and completed at its end."
    ),
    grain=("pipeline_run_id",),
    columns=(
        Column("pipeline_run_id", pa.string(), "UUID of the run"),
        Column("entry_point", pa.string(), "which entry point, by module name"),
        Column("arguments", pa.string(), "its arguments, as a shell would take them"),
        described(LOG_DATE, "the log date it worked on; null where it was not exactly one", nullable=True),
        Column("started_at", pa.timestamp("us", tz="UTC"), "when it started"),
        Column(
            "seconds",
            pa.float64(),
            "how long it took, without the start of Spark; null while it runs, and where it was killed",
            unit="s",
            minimum=0,
            nullable=True,
        ),
        count("rows_in", "rows read; null where not known", nullable=True),
        count("rows_out", "rows published; null where nothing was", nullable=True),
        Column(
            "outcome",
            pa.string(),
            "how it ended; started: it runs, or was killed and no writer has come since, who says killed",
            allowed=RUN_OUTCOMES,
        ),
        Column(
            "stages",
            pa.list_(PHASE_WORK),
            "what each phase of the run worked on: seconds; units; bytes of their files; ops stored; "
            "gate_seconds: of its seconds, those that its gates took; expectations: that its gates held; "
            "released: refusals that were let through by hand; null where no phase ended well",
            nullable=True,
        ),
        Column(
            "refusals",
            pa.list_(REFUSAL),
            "what gates refused, by table and expectation, and for how many rows; null where nothing was",
            nullable=True,
        ),
        Column(
            "accepted",
            pa.list_(pa.string()),
            "of release_night: refusals (table.expectation) that no longer stop the log date; else null",
            nullable=True,
        ),
        Column("accepted_by", pa.string(), "who released them; else null", nullable=True),
        Column("accepted_because", pa.string(), "why; else null", nullable=True),
    ),
    partition_by=(),
)
