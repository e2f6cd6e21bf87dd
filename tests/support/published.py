"""Read the published traces as rows of rank_steps with a manifest, and the results published for them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from schemas.tables import TABLES
from schemas.vocabulary import OP_CODES, RANK_STEPS

NAMES = ("SE", "ST")


def results(traces: Path, name: str) -> dict[str, Any]:
    """Return the published results of a trace; M_W and M_S have the keys `mw` and `ms`."""
    folder = traces / name
    found: dict[str, Any] = json.loads((folder / f"result-{name}.json").read_text())
    for share, key in (("mw", "rem"), ("ms", "rem")):
        found[share] = json.loads((folder / f"{share}-{name}.json").read_text())[key]
    return found


def manifest(traces: Path, name: str) -> dict[str, Any]:
    facts: dict[str, Any] = yaml.safe_load((traces / name / f"meta-{name}.yaml").read_text())
    return {**facts, "cp_size": facts["dsp_size"]}


def rank_steps(traces: Path, name: str, *, by: str = "start_ts") -> pa.Table:
    """Return rows of rank_steps, with ops ordered by start, or by type and start (`by="op"`)."""
    ops = pq.read_table(traces / name / f"trace-{name}.parquet").to_pandas()
    ops["op"] = ops.optype.astype(str).map(OP_CODES)
    ops = ops.sort_values(["stage", "step", "dp_rank", "rank", by, "start_ts"], kind="stable")
    rows = ops.groupby(["stage", "step", "dp_rank", "rank"], sort=True).size().reset_index(name="length")
    offsets = np.concatenate([[0], np.cumsum(rows.length)])

    def lists(values: "pd.Series[Any]", column: str) -> pa.Array:
        element = schema.field(column).type.value_type
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values.to_numpy(), element))

    schema = TABLES[RANK_STEPS].arrow_schema
    columns = {
        "step": rows.step,
        "rank": rows["rank"],
        "dp_rank": rows.dp_rank,
        "pp_rank": rows.stage,
        "op": lists(ops.op, "op"),
        "start_us": lists(ops.start_ts.astype("float64") * 1e6, "start_us"),
        "duration_us": lists(ops.duration.astype("float64") * 1e6, "duration_us"),
        "microbatch": lists(ops.mb_id, "microbatch"),
        "model_chunk": lists(ops.mc, "model_chunk"),
    }
    empty = pa.nulls(len(rows))
    names = [name for name in schema.names if name not in ("log_date", "job_id", "run_id", "source_file")]
    fields = [schema.field(name) for name in names]
    return pa.table({f.name: pa.array(columns.get(f.name, empty)).cast(f.type) for f in fields})
