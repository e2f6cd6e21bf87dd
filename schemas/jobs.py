"""jobs: the manifest of every unit found in the landing."""

import pyarrow as pa

from schemas.fields import GPU_HOURS, UNIT
from schemas.table import Column, Expectation, Table
from schemas.vocabulary import (
    JOBS,
    STATUS_BAD_LAYOUT,
    STATUS_NO_MANIFEST,
    STATUS_UNUSABLE_LOG,
    TRANSFERS,
    UNIT_KEY,
)

_SIZES = {
    "dp_size": "data-parallel size",
    "pp_size": "pipeline stages",
    "tp_size": "tensor-parallel size",
    "cp_size": "context-parallel size (dsp_size in published traces)",
    "vpp_size": "model chunks per stage (virtual pipeline)",
    "world_size": "number of ranks = dp_size x pp_size x tp_size x cp_size",
}
_ALL_SIZES_GOOD = " AND ".join(f"{name} >= 1" for name in _SIZES)


def _text(name: str, meaning: str) -> Column:
    return Column(name, pa.string(), meaning, nullable=True)


TABLE = Table(
    name=JOBS,
    meaning=(
        "One row per unit: what its manifest says. What is missing is null; a unit without a manifest is "
        "a row of nulls, except for what its log has. Sizes of a manifest with bad layout are stored as they "
        "came where they fit."
    ),
    grain=UNIT_KEY,
    columns=(
        *UNIT,
        *(Column(name, pa.int32(), meaning, unit="count", nullable=True) for name, meaning in _SIZES.items()),
        Column("ep_size", pa.int32(), "expert-parallel size", unit="count", nullable=True),
        _text("cluster", "cluster on which the job ran"),
        _text("team", "team that owns the job"),
        _text("model", "model in training"),
        _text("framework", "training framework"),
        _text("gpu_type", "type of the GPUs"),
        Column("started_at", pa.timestamp("us", tz="UTC"), "start of the run", nullable=True),
        Column("ended_at", pa.timestamp("us", tz="UTC"), "end of the run", nullable=True),
        GPU_HOURS,
        Column("restarts", pa.int32(), "restarts of the run", unit="count", nullable=True),
        Column("labels", pa.map_(pa.string(), pa.string()), "free labels, as text", nullable=True),
        Column(
            "manifest_status",
            pa.string(),
            "null: the manifest is good; otherwise the status that it, or a log of no use, gives its unit",
            nullable=True,
            allowed=(STATUS_NO_MANIFEST, STATUS_BAD_LAYOUT, STATUS_UNUSABLE_LOG),
        ),
        _text("manifest_detail", "what is wrong with the manifest or the log; null if manifest_status is"),
        _text(
            "source_format",
            "format of the log: rank-log/1, published-trace, or the tool that wrote it; null without a log "
            "and in rows of an earlier version",
        ),
        Column(
            "transfers",
            pa.string(),
            "whether the log's transfers were measured, inferred from gaps between computes, or are absent; "
            "null like source_format, then taken as measured",
            nullable=True,
            allowed=TRANSFERS,
        ),
        Column(
            "warm_up_steps",
            pa.int32(),
            "first recorded steps that are stored and not replayed, because the job was still warming up; "
            "null: none",
            unit="count",
            nullable=True,
            minimum=0,
        ),
        Column(
            "left_out",
            pa.map_(pa.string(), pa.int64()),
            "what a replay cannot use of another tool's log, and how often; also fields "
            "that the manifest lacks and the log has; null: nothing",
            nullable=True,
        ),
    ),
    expectations=(
        Expectation(
            "good_manifest_is_complete",
            f"manifest_status IS NOT NULL OR ({_ALL_SIZES_GOOD})",
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
