"""Tables about the pipeline itself: inputs of each unit, publications, and runs of commands."""

from typing import Final

import pyarrow as pa

from schemas import columns as col
from schemas.table import Table
from schemas.vocabulary import UNIT_KEY

FILE: Final = col.struct("name text, bytes integer, modified_us integer, digest text")

UNIT_FINGERPRINTS: Final = Table(
    "unit_fingerprints",
    "One row per unit and phase whose rows of the unit are published. Without it, the phase has "
    "to be done again. For aggregate and publish: the unit as it is counted in the tables of its day.",
    grain=(*UNIT_KEY, "stage"),
    partition_by=("log_date", "stage"),  # replaces a phase's days without reading files
    columns=col.declared(
        """
        log_date, job_id, run_id
        stage (text of PHASE_NAMES): the same as phase; a later version drops it
        phase (text? of PHASE_NAMES): phase of the night; null in rows of 0.3.0
        inputs (text): SHA-256 of what the phase read: the unit's files (names, sizes, contents), or inputs,
            settings and version of the phase before; for revise also those of the earlier days that it
            depends on
        settings (text): settings that matter to the phase, as JSON
        version (text): version of the phase's code; of simulate the simulator version
        bytes (count): bytes of the unit's files
        ops (count): ops stored in rank_steps
        files (files): ingest only: the unit's files. name; bytes; modified_us: Unix time of the last change;
            digest: SHA-256 of the content, null for a file too large to be hashed
        """,
        own={"files": pa.list_(FILE)},
    ),
)

PUBLICATIONS: Final = Table(
    "publications",
    "One row per publication: a phase, or upkeep, that replaced rows of one or more tables. The row is "
    "appended after the last table was committed. The tables as of the latest row belong together. Only "
    "ever appended to.",
    grain=("publication",),
    partition_by=(),
    columns=col.declared("""
        publication (count): number of the publication; the highest is the latest
        published_at (instant): when it was complete
        phase (text of PUBLISHERS): phase that published; upkeep: old rows removed or files compacted;
            recover: an unfinished one was undone; begin: the tables as they were before the first publication
        log_dates (day[]): days whose rows were replaced
        versions (text -> integer): Delta version of every table of the warehouse, by table; a table not
            listed is empty
        """),
)

_WORK: Final = (
    "seconds real, units integer, bytes integer, ops integer, gate_seconds real, expectations integer, "
    "released integer"
)
REFUSAL: Final = col.struct("table text, expectation text, rows integer, meaning text")

PIPELINE_RUNS: Final = Table(
    "pipeline_runs",
    "One row per run of an entry point that writes, successful or not. It exists from the start of the "
    "run, and completed at its end.",
    grain=("pipeline_run_id",),
    partition_by=(),
    columns=col.declared(
        """
        pipeline_run_id (text): UUID of the run
        entry_point (text): entry point, by module name
        arguments (text): its arguments, as a shell would take them
        log_date (day?): the log date of its work; null unless exactly one
        started_at (instant): when it started
        seconds (seconds? >= 0): how long it took, without the start of Spark; null while it runs, and if it
            was killed
        rows_in (count?): rows read; null if not known
        rows_out (count?): rows published; null if nothing was
        outcome (text of RUN_OUTCOMES): how it ended; interrupted: by Ctrl-C; started: it runs, or was killed
            and no later writer has marked it killed
        stages (stages?): the same as phases, with stage for phase; a later version drops it
        phases (phases?): what each phase of the run worked on: seconds; units; bytes of their files; ops
            stored; gate_seconds: seconds of its gates, part of seconds; expectations: checked by its gates;
            released: refusals released by hand; null if no phase succeeded, and in rows of 0.3.0
        refusals (refusals?): what gates refused, by table and expectation, and for how many rows; null if
            nothing was
        accepted (text[]?): of release_night: refusals (table.expectation) that no longer stop the log date;
            else null
        accepted_by (text?): who released them; else null
        accepted_because (text?): why they were released; else null
        """,
        own={
            "stages": pa.list_(col.struct(f"stage text, {_WORK}")),
            "phases": pa.list_(col.struct(f"phase text, {_WORK}")),
            "refusals": pa.list_(REFUSAL),
        },
    ),
)
