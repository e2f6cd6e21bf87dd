"""Tables about the pipeline itself: inputs of each unit, publications, and runs of commands."""

from typing import Final

import pyarrow as pa

from schemas import columns as col
from schemas.table import Table
from schemas.vocabulary import UNIT_KEY

FILE: Final = col.struct("name text, bytes integer, modified_us integer, digest text")

UNIT_FINGERPRINTS: Final = Table(
    "unit_fingerprints",
    "One row per unit and phase: the inputs from which the published rows were computed. If the row is "
    "missing, the phase has to process the unit again. Rows of aggregate and publish say that the tables of "
    "the day include the unit.",
    grain=(*UNIT_KEY, "stage"),
    partition_by=("log_date", "stage"),  # so that a phase replaces its days without reading files
    columns=col.declared(
        """
        log_date, job_id, run_id
        stage (text of PHASE_NAMES): the same as phase; a later version removes this column
        phase (text? of PHASE_NAMES): phase of the night; null in rows of 0.3.0
        inputs (text): SHA-256 of the phase's inputs: for ingest of the unit's files (names, sizes, contents),
            for other phases of inputs, settings and version of the previous phase; for revise also of these
            on the earlier days that the unit depends on
        settings (text): settings that change results of the phase, as JSON
        version (text): version of the phase's code; for simulate the simulator version
        bytes (count): bytes of the unit's files
        ops (count): ops stored in rank_steps
        files (files): for ingest the unit's files, for other phases empty. modified_us: Unix time of the last
            change; digest: SHA-256 of the content, null for a file that is too large to be hashed
        """,
        own={"files": pa.list_(FILE)},
    ),
)

PUBLICATIONS: Final = Table(
    "publications",
    "One row per publication, by which a phase or upkeep replaced rows of one or more tables together. The "
    "row is appended after all tables are committed; readers use the table versions of the latest row. Rows "
    "are never changed or deleted.",
    grain=("publication",),
    partition_by=(),
    columns=col.declared("""
        publication (count): number of the publication; the highest is the latest
        published_at (instant): when the publication was complete
        phase (text of PUBLISHERS): phase that published; upkeep: old rows were deleted or files merged;
            recover: an unfinished publication was undone; begin: the tables before the first publication
        log_dates (day[]): days whose rows were replaced
        versions (text -> integer): Delta version of every table of the warehouse, by table name; tables that
            are missing here are empty
        """),
)

_WORK: Final = (
    "seconds real, units integer, bytes integer, ops integer, gate_seconds real, expectations integer, "
    "released integer"
)
REFUSAL: Final = col.struct("table text, expectation text, rows integer, meaning text")

PIPELINE_RUNS: Final = Table(
    "pipeline_runs",
    "One row per run of a command that writes, successful or not. The row is written when the run starts, "
    "and completed when it ends.",
    grain=("pipeline_run_id",),
    partition_by=(),
    columns=col.declared(
        """
        pipeline_run_id (text): UUID of the run
        entry_point (text): name of the command's module, such as run_nightly
        arguments (text): arguments of the command, quoted as for a shell
        log_date (day?): log date that the run worked on; null if there is none, or more than one
        started_at (instant): when the run started
        seconds (seconds? >= 0): how long the run took, without the start of Spark; null while it is running,
            and if it was killed
        rows_in (count?): rows read; null if not known
        rows_out (count?): rows published; null if none were
        outcome (text of RUN_OUTCOMES): how the run ended; interrupted: by Ctrl-C; started: it is running, or
            was killed and no later writer has set killed yet
        stages (stages?): the same as phases, with a field stage instead of phase; a later version removes
            this column
        phases (phases?): work of each phase: seconds; units; bytes of their files; ops stored; gate_seconds:
            part of seconds that gates took; expectations: number that gates checked; released: number of
            refusals that release_night had accepted; null if no phase succeeded, and in rows of 0.3.0
        refusals (refusals?): expectations that gates refused, with their table, meaning, and the number of
            rows that break them; null: none
        accepted (text[]?): of release_night: refusals (table.expectation) that it accepts for the log date;
            null for other commands
        accepted_by (text?): of release_night: person who accepts them; null for other commands
        accepted_because (text?): of release_night: reason; null for other commands
        """,
        own={
            "stages": pa.list_(col.struct(f"stage text, {_WORK}")),
            "phases": pa.list_(col.struct(f"phase text, {_WORK}")),
            "refusals": pa.list_(REFUSAL),
        },
    ),
)
