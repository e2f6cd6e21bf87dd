"""The tables that ingest writes: rows of rank logs and manifests, and rejected rows."""

from typing import Final

import pyarrow as pa

from schemas import columns as col
from schemas.table import Column, Expectation, Table, sql_strings
from schemas.vocabulary import EVENTS, FILE_REASONS, OP_TYPES, REJECT_REASONS, TRANSFERS, UNIT_KEY, Status

_TIMES: Final = pa.list_(pa.float64())
_NUMBERS: Final = pa.list_(pa.int32())

RANK_STEPS: Final = Table(
    "rank_steps",
    "One row per rank and step, its ops as arrays of one length in the order of the log's line. "
    "Contains all recorded ranks; of each worker the lowest (cp_rank, tp_rank) is replayed. "
    "The view ops shows one row per op, with names.",
    grain=(*UNIT_KEY, "step", "rank"),
    columns=(
        *col.UNIT,
        col.STEP,
        col.RANK,
        col.DP_RANK,
        col.PP_RANK,
        col.number32("tp_rank", "tensor-parallel coordinate; null if not logged", nullable=True, minimum=0),
        col.number32("cp_rank", "context-parallel coordinate; null if not logged", nullable=True, minimum=0),
        col.HOST,
        col.number32("gpu", "GPU index on its host; null if not logged", nullable=True),
        col.integer(
            "t0_us",
            "Unix time of the row's zero; null in published traces, whose zero is the step's start",
            unit="us",
            nullable=True,
            minimum=0,
        ),
        Column(
            "op",
            "op types as codes: positions in vocabulary.OP_TYPES",
            pa.list_(pa.int8()),
            minimum=0,
            maximum=len(OP_TYPES) - 1,
        ),
        Column("start_us", "start of each op after the row's zero", _TIMES, unit="us", minimum=0),
        Column("duration_us", "length of each op", _TIMES, unit="us", minimum=0),
        Column("microbatch", "microbatch of each op; meaningful on computes and data-loads only", _NUMBERS),
        Column(
            "model_chunk",
            "model chunk within the stage; meaningful on computes, data-loads and collectives of one chunk",
            _NUMBERS,
        ),
        col.SOURCE_FILE,
    ),
    alike=("op", "start_us", "duration_us", "microbatch", "model_chunk"),
)

_SIZES: Final = {
    "dp_size": "data-parallel size",
    "pp_size": "pipeline stages",
    "tp_size": "tensor-parallel size",
    "cp_size": "context-parallel size (dsp_size in published traces)",
    "vpp_size": "model chunks per stage (virtual pipeline)",
    "world_size": "number of ranks = dp_size x pp_size x tp_size x cp_size",
}

JOBS: Final = Table(
    "jobs",
    "One row per unit: what its manifest says. What is missing is null; a unit without a manifest is "
    "a row of nulls, except for what its log has. Sizes of a manifest with bad layout are stored as they "
    "came where they fit.",
    grain=UNIT_KEY,
    columns=(
        *col.UNIT,
        *(col.size(name, meaning, nullable=True) for name, meaning in _SIZES.items()),
        col.size("ep_size", "expert-parallel size", nullable=True),
        col.text("cluster", "cluster on which the job ran", nullable=True),
        col.text("team", "team that owns the job", nullable=True),
        col.text("model", "model in training", nullable=True),
        col.text("framework", "training framework", nullable=True),
        col.text("gpu_type", "type of the GPUs", nullable=True),
        col.instant("started_at", "start of the run", nullable=True),
        col.instant("ended_at", "end of the run", nullable=True),
        col.GPU_HOURS,
        col.size("restarts", "restarts of the run", nullable=True),
        Column("labels", "free labels, as text", pa.map_(pa.string(), pa.string()), nullable=True),
        col.text(
            "manifest_status",
            "null: the manifest is good; otherwise the status that it, or a log of no use, gives its unit",
            nullable=True,
            allowed=(
                Status.NO_MANIFEST,
                Status.BAD_LAYOUT,
                Status.UNUSABLE_LOG,
                Status.STEP_TIMES_ONLY,
                Status.FAILED,
            ),
        ),
        col.text(
            "manifest_detail",
            "what is wrong with the manifest or the log; null if manifest_status is",
            nullable=True,
        ),
        col.text(
            "source_format",
            "format of the log: rank-log/1, published-trace, or the tool that wrote it; null without a log "
            "and in rows of an earlier version",
            nullable=True,
        ),
        col.text(
            "transfers",
            "whether the log's transfers were measured, inferred from gaps between computes, or are absent; "
            "null like source_format, then taken as measured",
            nullable=True,
            allowed=TRANSFERS,
        ),
        col.texts(
            "blocking_transfers",
            "op types of the transfers that workers wait for before they go on; empty: none blocks; "
            "null: not stated, then the replay finds out",
            nullable=True,
        ),
        col.size(
            "warm_up_steps",
            "first recorded steps that are stored and not replayed, because the job was still warming up; "
            "null: none",
            nullable=True,
            minimum=0,
        ),
        Column(
            "left_out",
            "what a replay cannot use of another tool's log, and how often; also fields "
            "that the manifest lacks and the log has; null: nothing",
            pa.map_(pa.string(), pa.int64()),
            nullable=True,
        ),
        Column(
            "gpu_types",
            "host -> type of its GPUs, from the manifest, and from rank logs for hosts it does not name; of "
            "the manifest's hosts those that rows name, and one of each further type; a host whose lines "
            "contradict each other is left out; null: nothing says so",
            pa.map_(pa.string(), pa.string()),
            nullable=True,
        ),
        col.text(
            "part_of", "the whole of several roles that the run is part of; null: of none", nullable=True
        ),
        col.text("role", "what the run does in that whole, such as actor or rollout", nullable=True),
        Column(
            "iterations",
            "iteration of the whole that each step with rows belongs to, by step number",
            pa.map_(pa.int64(), pa.int64()),
            nullable=True,
        ),
        Column(
            "step_times",
            "of a log with step times and no ops, in its order: step, its time in s (or the mean of those "
            "since the line before), and the time of day as the log has it, in a zone that it does not "
            "state; null for all others",
            pa.list_(pa.struct([("step", pa.int64()), ("step_s", pa.float64()), ("logged_at", pa.string())])),
            nullable=True,
        ),
        col.texts(
            "refused_claims",
            "what the manifest or the logs claim and is not believed, in sentences; null: nothing",
            nullable=True,
        ),
    ),
    expectations=(
        Expectation(
            "good_manifest_is_complete",
            f"manifest_status IS NOT NULL OR ({' AND '.join(f'{name} >= 1' for name in _SIZES)})",
            "a valid manifest has every size, each at least 1",
        ),
        Expectation(
            "world_size_is_the_product",
            "manifest_status IS NOT NULL OR world_size = double(dp_size) * pp_size * tp_size * cp_size",
            "in a valid manifest world_size = dp_size x pp_size x tp_size x cp_size",
        ),
        Expectation(
            "bad_manifest_says_why",
            "(manifest_status IS NULL) = (manifest_detail IS NULL)",
            "manifest_detail exists exactly if manifest_status does; no figure uses it",
            severity="warns",
        ),
    ),
)

REJECTS: Final = Table(
    "rejects",
    "One row per rejected line or file. A rejected line costs its rank's step and nothing else.",
    grain=(*UNIT_KEY, "source_file", "line"),
    columns=(
        *col.UNIT,
        col.SOURCE_FILE,
        col.integer("line", "1-based, blank lines counted; null: the whole file", nullable=True, minimum=1),
        col.text(
            "reason",
            "why the line or file was rejected, the first reason that applies",
            allowed=REJECT_REASONS,
        ),
        col.text("detail", "what was wrong with the line or file, in a sentence"),
        col.text("text", "the line's first 2,000 characters; null: the whole file", nullable=True),
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

SOURCE_FILES: Final = Table(
    "source_files",
    "One row per file of logs read. For every readable file of lines: lines = rows + rejects, the lines "
    "counted by the text reader, not by the parser.",
    grain=(*UNIT_KEY, "source_file"),
    columns=(
        *col.UNIT,
        col.SOURCE_FILE,
        col.count("bytes", "size of the file", unit="B"),
        col.count(
            "lines",
            "lines that are not blank; null: not readable to its end, or not made of lines",
            nullable=True,
        ),
        col.count("rows", "rows of rank_steps that came from it; of a file of events, rows of run_events"),
        col.count("rejects", "rows of rejects that name it"),
        col.instant(
            "modified_at",
            "when it was last changed; null where its store does not say, as in rows of an earlier version",
            nullable=True,
        ),
        col.integer(
            "owner_uid",
            "number of the user who owns it; null outside folders, as in rows of an earlier version",
            nullable=True,
            minimum=0,
        ),
        col.count(
            "hard_links",
            "names of the file in its filesystem: more than one are usual where backups are made by links; "
            "null like owner_uid",
            nullable=True,
        ),
    ),
    expectations=(
        Expectation(
            "every_line_is_accounted_for",
            "lines IS NULL OR lines = rows + rejects",
            "lines = rows stored + rejects",
        ),
    ),
)

COLLECTIVE_ARRIVAL: Final = Table(
    "collective_arrival",
    "One row per communicator and rank in it, from logs of NCCL Inspector and traces of torch.profiler. "
    "All ranks leave a collective together, so the rank with the shortest time in it came last. "
    "Only collectives with all ranks recorded count, or all that left any record in the communicator. "
    "They do not show what a late rank did "
    "before: they show where to look, not what it costs.",
    grain=(*UNIT_KEY, "communicator", "rank"),
    columns=(
        *col.UNIT,
        col.text("communicator", "as the tool names it: NCCL's hash, or a process group"),
        col.number32(
            "rank",
            "as the tool numbers it: NCCL within the communicator, torch.profiler within the job",
            minimum=0,
        ),
        col.HOST,
        col.count("collectives", "collectives recorded by all ranks of the communicator"),
        col.count("times_last", "collectives to which this rank came last; ties to the lower rank"),
        col.real("mean_late_us", "how long after the first rank it came, on average", unit="us", minimum=0),
        col.real("mean_wait_us", "how long it waited for the last rank, on average", unit="us", minimum=0),
        col.number32(
            "unrecorded_ranks",
            "ranks of the communicator without any record: last is then who came last of the others; null in "
            "rows of an earlier version, in which there were none",
            nullable=True,
            minimum=0,
        ),
    ),
    expectations=(
        Expectation(
            "last_is_a_part",
            "times_last <= collectives",
            "no rank is last in more collectives than it takes part in",
        ),
        Expectation(
            "there_are_some", "collectives > 0", "a rank without a fully recorded collective has no row"
        ),
    ),
)

RUN_EVENTS: Final = Table(
    "run_events",
    "One row per event of a run, from its events.jsonl: what happened to it, and when. job_time says "
    "what became of its GPU-hours.",
    grain=(*UNIT_KEY, "source_file", "line"),
    columns=(
        *col.UNIT,
        col.SOURCE_FILE,
        col.integer("line", "1-based, blank lines counted", minimum=1),
        col.text(
            "event",
            "start and restart: its processes begin to start; first_step: the first step after that begins; "
            "step: a step begins; checkpoint, evaluation, data_loading: training stands still to save, to "
            "evaluate, to load data; failure: training ends without being asked to; stop: it ends for good; "
            "submitted: the run begins to wait for GPUs",
            allowed=EVENTS,
        ),
        col.integer("at_us", "Unix time at which it happened, or began", unit="us", minimum=0),
        col.integer(
            "step", "the step that comes next: all before it are done; null if not logged", nullable=True
        ),
        col.real(
            "duration_us",
            "how long training stood still; null: not logged",
            unit="us",
            nullable=True,
            minimum=0,
        ),
    ),
)
