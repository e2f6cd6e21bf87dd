"""rank_steps: what one rank did in one step, its ops as arrays; every readable, valid line of the landing."""

import pyarrow as pa

from schemas.fields import DP_RANK, HOST, PP_RANK, RANK, SOURCE_FILE, STEP, UNIT
from schemas.table import Column, Table
from schemas.vocabulary import OP_TYPES, RANK_STEPS, UNIT_KEY

TABLE = Table(
    name=RANK_STEPS,
    meaning=(
        "One row per rank and step, its ops as arrays of one length in the order of the log's line. "
        "Contains all recorded ranks; of each worker the lowest (cp_rank, tp_rank) is replayed. "
        "The view ops shows one row per op, with names."
    ),
    grain=(*UNIT_KEY, "step", "rank"),
    columns=(
        *UNIT,
        STEP,
        RANK,
        DP_RANK,
        PP_RANK,
        Column(
            "tp_rank",
            pa.int32(),
            "tensor-parallel coordinate; null if not logged",
            nullable=True,
            minimum=0,
        ),
        Column(
            "cp_rank",
            pa.int32(),
            "context-parallel coordinate; null if not logged",
            nullable=True,
            minimum=0,
        ),
        HOST,
        Column("gpu", pa.int32(), "GPU index on its host; null if not logged", nullable=True),
        Column(
            "t0_us",
            pa.int64(),
            "Unix time of the row's zero; null in published traces, whose zero is the step's start",
            unit="us",
            nullable=True,
            minimum=0,
        ),
        Column(
            "op",
            pa.list_(pa.int8()),
            "op types as codes: positions in vocabulary.OP_TYPES",
            minimum=0,
            maximum=len(OP_TYPES) - 1,
        ),
        Column(
            "start_us", pa.list_(pa.float64()), "start of each op after the row's zero", unit="us", minimum=0
        ),
        Column("duration_us", pa.list_(pa.float64()), "length of each op", unit="us", minimum=0),
        Column("microbatch", pa.list_(pa.int32()), "microbatch of each op; meaningful on compute ops only"),
        Column(
            "model_chunk",
            pa.list_(pa.int32()),
            "model chunk within the stage; meaningful on computes and on collectives of one chunk",
        ),
        SOURCE_FILE,
    ),
    alike=("op", "start_us", "duration_us", "microbatch", "model_chunk"),
)
