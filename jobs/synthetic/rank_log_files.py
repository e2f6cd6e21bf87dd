"""Writes a generated job into a landing folder as rank logs; the JSON encoder takes most of the time."""

import gzip
import json
from collections.abc import Iterator
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jobs.synthetic.job import GeneratedJob
from schemas.vocabulary import OP_TYPES, RANK_LOG_FORMAT

SCALARS = ("rank", "dp_rank", "pp_rank", "tp_rank", "cp_rank", "host", "gpu", "step", "t0_us")
ARRAYS = ("op", "start_us", "duration_us", "microbatch", "model_chunk")


def write_rank_logs(landing: Path, log_date: date, job: GeneratedJob, *, compress: bool = False) -> Path:
    """Write one rank log per rank, steps in order, and the manifest; returns the run's folder."""
    ids = {name: str(job.manifest[name]) for name in ("job_id", "run_id")}
    day = landing / f"log_date={log_date.isoformat()}"
    folder = day / f"job_id={ids['job_id']}" / f"run_id={ids['run_id']}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "job.json").write_text(json.dumps(job.manifest) + "\n")
    lines: dict[int, list[str]] = {}
    for record in _records(job.rank_steps, ids):
        lines.setdefault(record["rank"], []).append(json.dumps(record, separators=(",", ":")) + "\n")
    for rank, of_rank in lines.items():
        data = "".join(of_rank).encode()
        if compress:
            (folder / f"rank-{rank:05d}.jsonl.gz").write_bytes(gzip.compress(data, compresslevel=1, mtime=0))
        else:
            (folder / f"rank-{rank:05d}.jsonl").write_bytes(data)
    return folder


def _records(rows: pa.Table, ids: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the lines' objects, cut from flat lists: converting lists of lists would cost the most."""
    rows = rows.combine_chunks()
    scalars = [rows[name].to_pylist() for name in SCALARS]
    lengths = pc.list_value_length(rows["op"])
    ends = [0, *pc.cumulative_sum(lengths).to_pylist()]
    flat = {name: pc.list_flatten(rows[name]).to_numpy().tolist() for name in ARRAYS}
    flat["op"] = [OP_TYPES[code] for code in flat["op"]]
    for (first, end), values in zip(pairwise(ends), zip(*scalars, strict=True), strict=True):
        known = {name: value for name, value in zip(SCALARS, values, strict=True) if value is not None}
        arrays = {name: column[first:end] for name, column in flat.items()}
        yield {"format": RANK_LOG_FORMAT, **ids, **known, **arrays}
