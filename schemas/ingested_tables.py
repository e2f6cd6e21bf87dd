"""Tables that ingest writes from landings: rank logs, manifests, rejects, files, arrivals and run events."""

from typing import Final

import pyarrow as pa

from schemas import columns as col
from schemas.table import Table, sql_strings
from schemas.vocabulary import FILE_REASONS, OP_TYPES, UNIT_KEY, Status

RANK_STEPS: Final = Table(
    "rank_steps",
    "One row per recorded rank and step, with the ops as arrays of equal length, in the order of the log's "
    "line. Only the lowest recorded (cp_rank, tp_rank) of each worker is replayed. The view ops has one row "
    "per op, with the names of op types.",
    grain=(*UNIT_KEY, "step", "rank"),
    columns=col.declared(f"""
        log_date, job_id, run_id, step, rank, dp_rank, pp_rank
        tp_rank (number32? >= 0): tensor-parallel coordinate; null if not logged
        cp_rank (number32? >= 0): context-parallel coordinate; null if not logged
        host
        gpu (number32?): GPU index on its host; null if not logged
        t0_us (integer? [us] >= 0): Unix time from which start_us counts; null in published traces, which
            count from the start of the step
        op (code[] >= 0 <= {len(OP_TYPES) - 1}): op types as codes: positions in vocabulary.OP_TYPES
        start_us (real[] [us] >= 0): start of each op, counted from t0_us
        duration_us (real[] [us] >= 0): duration of each op
        microbatch (number32[]): microbatch of each op; meaningful on computes and data-loads only
        model_chunk (number32[]): model chunk within the stage; meaningful on computes, data-loads and
            collectives of one chunk
        source_file
        """),
    alike=("op", "start_us", "duration_us", "microbatch", "model_chunk"),
)

_SIZES: Final = ("dp_size", "pp_size", "tp_size", "cp_size", "vpp_size", "world_size")
_HAS_SIZES: Final = " AND ".join(f"{name} >= 1" for name in _SIZES)

_MANIFEST_STATUSES: Final = (
    Status.NO_MANIFEST,
    Status.BAD_LAYOUT,
    Status.UNUSABLE_LOG,
    Status.STEP_TIMES_ONLY,
    Status.FAILED,
)

JOBS: Final = Table(
    "jobs",
    "One row per unit, with the fields of its manifest; a missing field is null. A unit without a manifest "
    "has only the fields that its log states. Sizes of a manifest with status bad_layout are stored "
    "unchanged if they fit into an int.",
    grain=UNIT_KEY,
    columns=col.declared(
        """
        log_date, job_id, run_id
        dp_size (size?): data-parallel size
        pp_size (size?): number of pipeline stages
        tp_size (size?): tensor-parallel size
        cp_size (size?): context-parallel size (dsp_size in published traces)
        vpp_size (size?): number of model chunks per stage; above 1 in a virtual pipeline
        world_size (size?): number of ranks = dp_size x pp_size x tp_size x cp_size
        ep_size (size?): expert-parallel size
        cluster (text?): cluster on which the job ran
        team (text?): team that owns the job
        model (text?): model in training
        framework (text?): training framework
        gpu_type (text?): type of the GPUs
        started_at (instant?): start of the run
        ended_at (instant?): end of the run
        gpu_hours
        restarts (size?): restarts of the run
        labels (text -> text?): labels of any name and value from the manifest, as text
        manifest_status (text? of MANIFEST_STATUSES): status of the unit that follows from its manifest, or
            from an unusable log, alone; null: the manifest is valid
        manifest_detail (text?): what is wrong with the manifest or the log; null if manifest_status is
        source_format (text?): format of the log: rank-log/1, published-trace, or the tool that wrote it;
            null without a log and in rows of an earlier version
        transfers (text? of TRANSFERS): whether the log's transfers were measured, inferred from gaps between
            computes, or are absent; null as for source_format, which counts as measured
        blocking_transfers (text[]?): op types of the transfers that a worker waits for before its next op;
            empty: no type; null: not stated, so that the replay decides
        warm_up_steps (size? >= 0): number of first recorded steps that are stored but not replayed, because
            the job was still warming up; null: none
        left_out (text -> integer?): kinds of content of another tool's log that a replay cannot use, and how
            often each occurs; also fields that the log has and the manifest lacks; null: nothing
        gpu_types (text -> text?): host -> type of its GPUs, from the manifest, and from rank logs for hosts
            that the manifest does not name. Of the manifest's hosts only those that rows name are stored, and
            one for each type that these lack. A host whose lines contradict each other is left out; null: no
            source states types
        part_of (text?): name of the whole that the run is part of, a job of several roles; null: of none
        role (text?): role of the run in that whole, such as actor or rollout
        iterations (integer -> integer?): iteration of the whole that each step with rows belongs to, by
            step number
        step_times (step_times?): of a log with step times but no ops, in the log's order: step; step_s: its
            time, or the mean since the previous line; logged_at: time of day as logged, in a zone that the
            log does not state; null for all other logs
        refused_claims (text[]?): a sentence for each statement of the manifest or logs that is ignored
            because it contradicts the rows, and for each field of job.json whose name looks misspelt; null:
            none
        """,
        own={
            "step_times": pa.list_(col.struct("step integer, step_s real, logged_at text")),
            "MANIFEST_STATUSES": _MANIFEST_STATUSES,
        },
    ),
    expectations=col.rules(f"""
        -- a valid manifest has every size, each at least 1
        good_manifest_is_complete: manifest_status IS NOT NULL OR ({_HAS_SIZES})
        -- in a valid manifest world_size = dp_size x pp_size x tp_size x cp_size
        world_size_is_the_product: manifest_status IS NOT NULL OR world_size = double(dp_size) * pp_size *
            tp_size * cp_size
        -- manifest_detail exists exactly if manifest_status does; no figure uses it
        bad_manifest_says_why (warns): (manifest_status IS NULL) = (manifest_detail IS NULL)
        """),
)

REJECTS: Final = Table(
    "rejects",
    "One row per rejected line or file. A rejected line removes one step of one rank, and nothing else.",
    grain=(*UNIT_KEY, "source_file", "line"),
    columns=col.declared("""
        log_date, job_id, run_id, source_file
        line (integer? >= 1): number of the line, from 1, blank lines counted; null: the whole file
        reason (text of REJECT_REASONS): why the line or file was rejected, the first reason that applies
        detail (text): what was wrong with the line or file, in a sentence
        text (text?): the line's first 2,000 characters; null: the whole file
        """),
    expectations=col.rules(f"""
        -- line is null exactly for a whole file
        only_files_have_no_line: (line IS NULL) = (reason IN ({sql_strings(FILE_REASONS)}))
        -- text has at most 2,000 characters; more only takes space: no figure uses it
        text_is_cut (warns): text IS NULL OR length(text) <= 2000
        """),
)

SOURCE_FILES: Final = Table(
    "source_files",
    "One row per file of logs that was read. For every readable file of lines, lines = rows + rejects; the "
    "lines are counted independently of the parser.",
    grain=(*UNIT_KEY, "source_file"),
    columns=col.declared("""
        log_date, job_id, run_id, source_file
        bytes (count [B]): size of the file
        lines (count?): lines that are not blank; null: the file is not readable to its end, or has no lines
        rows (count): rows of rank_steps from this file; for a file of events, rows of run_events
        rejects (count): rows of rejects that name this file
        modified_at (instant?): when the file was last changed; null if its store does not say, and in rows of
            an earlier version
        owner_uid (integer? >= 0): user id of the owner of the file; null in object stores, and in rows of
            an earlier version
        hard_links (count?): number of names of the file in its filesystem, which backups by hard links
            increase; null as for owner_uid
        """),
    expectations=col.rules("""
        -- lines = rows stored + rejects
        every_line_is_accounted_for: lines IS NULL OR lines = rows + rejects
        """),
)

COLLECTIVE_ARRIVAL: Final = Table(
    "collective_arrival",
    "One row per communicator and rank in it, from logs of NCCL Inspector and traces of torch.profiler. All "
    "ranks leave a collective together, so the rank with the shortest time in a collective came last. A "
    "collective counts only if it was recorded by all ranks of the communicator that have any record. Such "
    "logs do not show what a late rank did before: they show which rank to look at, not what lateness "
    "costs.",
    grain=(*UNIT_KEY, "communicator", "rank"),
    columns=col.declared("""
        log_date, job_id, run_id
        communicator (text): communicator as the tool names it: NCCL's hash, or a process group
        rank (number32 >= 0): rank as the tool numbers it: NCCL Inspector within the communicator,
            torch.profiler within the job
        host
        collectives (count): collectives recorded by all ranks of the communicator
        times_last (count): collectives to which this rank came last; ties to the lower rank
        mean_late_us (real [us] >= 0): mean time from the arrival of the first rank to that of this rank
        mean_wait_us (real [us] >= 0): mean time from the arrival of this rank to that of the last rank
        unrecorded_ranks (number32? >= 0): ranks of the communicator without any record, which may have come
            later than the last recorded rank; null in rows of an earlier version, where it means 0
        """),
    expectations=col.rules("""
        -- no rank is last in more collectives than it takes part in
        last_is_a_part: times_last <= collectives
        -- a rank without a fully recorded collective has no row
        there_are_some: collectives > 0
        """),
)

RUN_EVENTS: Final = Table(
    "run_events",
    "One row per event of a run, such as a start, checkpoint or failure, from its events.jsonl. job_time "
    "sums up how the GPU-hours were spent.",
    grain=(*UNIT_KEY, "source_file", "line"),
    columns=col.declared("""
        log_date, job_id, run_id, source_file
        line (integer >= 1): number of the line, from 1, blank lines counted
        event (text of EVENTS): start and restart: the run's processes begin to start; first_step: the first
            step after that begins; step: a step begins; checkpoint, evaluation, data_loading: training stands
            still to save, to evaluate, to load data; failure: training ends unintentionally; stop: training
            ends for good; submitted: the run begins to wait for GPUs
        at_us (integer [us] >= 0): Unix time at which the event happened, or began
        step (integer?): number of the next step, when all earlier steps are done; null if not logged
        duration_us (real? [us] >= 0): how long training stood still; null: not logged
        """),
)
