"""Writer of a generated job's rank logs and NCCL Inspector logs into a landing folder.

For speed, Arrow formats the text of rank logs, a whole column at once.
"""

import gzip
import json
from collections import Counter, defaultdict
from datetime import date
from itertools import chain, groupby
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from jobs.synthetic.job import GeneratedJob
from schemas.vocabulary import OP_CODES, OP_TYPES, RANK_LOG_FORMAT
from udfs.op_lists import LISTS

SCALARS: Final = ("rank", "dp_rank", "pp_rank", "tp_rank", "cp_rank", "host", "gpu", "step", "t0_us")
WORDS: Final = pa.array([json.dumps(op_type) for op_type in OP_TYPES], pa.string())
COLLECTIVES: Final = {
    OP_CODES["params-all-gather"]: "AllGather",
    OP_CODES["grads-reduce-scatter"]: "ReduceScatter",
}
"""NCCL Inspector's names of these collectives, by op code."""
FROM_THE_START: Final = pa.array([0], pa.int32())
ROWS_AT_ONCE: Final = 1000
"""Most lines formatted at once, because the text of an Arrow array is limited to 2 GiB."""


def write_rank_logs(landing: Path, log_date: date, job: GeneratedJob, *, compress: bool = False) -> Path:
    """Write one rank log per rank, with steps in order, and the manifest; return the run's folder."""
    folder = run_folder(landing, log_date, job.manifest["job_id"], job.manifest["run_id"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "job.json").write_text(json.dumps(job.manifest) + "\n")
    rows = job.rank_steps.sort_by([("rank", "ascending"), ("step", "ascending")])
    batches = rows.combine_chunks().to_batches(max_chunksize=ROWS_AT_ONCE)
    texts = chain.from_iterable(_lines(batch, job.manifest) for batch in batches)
    lines = zip(rows["rank"].to_pylist(), texts, strict=True)
    for rank, of_rank in groupby(lines, key=lambda line: line[0]):
        data = b"".join(line for _, line in of_rank)
        if compress:
            (folder / f"rank-{rank:05d}.jsonl.gz").write_bytes(gzip.compress(data, compresslevel=1, mtime=0))
        else:
            (folder / f"rank-{rank:05d}.jsonl").write_bytes(data)
    return folder


def write_inspector_logs(folder: Path, job: GeneratedJob) -> None:
    """Write an NCCL Inspector log for each recorded rank, with its time in each data-parallel collective."""
    lines: dict[str, list[str]] = defaultdict(list)
    numbers: Counter[tuple[int, str]] = Counter()
    for row in job.rank_steps.sort_by([("rank", "ascending"), ("step", "ascending")]).to_pylist():
        rank, host = row["rank"], row["host"]
        header = {
            "id": f"0x{row['pp_rank']:016x}",
            "rank": row["dp_rank"],
            "n_ranks": job.manifest["dp_size"],
        }
        for op, inside_us in zip(row["op"], row["duration_us"], strict=True):
            if (coll := COLLECTIVES.get(op)) is None:
                continue
            numbers[rank, coll] += 1
            done = {"coll": coll, "coll_sn": numbers[rank, coll], "coll_exec_time_us": inside_us}
            line = {"header": header, "metadata": {"hostname": host, "pid": rank}, "coll_perf": done}
            lines[f"{host}-pid{rank}.log"].append(json.dumps(line))
    for name, some in lines.items():
        (folder / name).write_text("".join(f"{line}\n" for line in some))


def run_folder(landing: Path, log_date: date, job_id: str, run_id: str) -> Path:
    """Return the folder of a run's logs on a day."""
    return landing / f"log_date={log_date.isoformat()}" / f"job_id={job_id}" / f"run_id={run_id}"


def _lines(rows: pa.RecordBatch, manifest: dict[str, Any]) -> list[bytes]:
    """Return the line of each row: a JSON object and a newline."""
    ids = {"format": RANK_LOG_FORMAT, **{name: str(manifest[name]) for name in ("job_id", "run_id")}}
    before = json.dumps(ids, separators=(",", ":"))[:-1]
    heads = []
    for values in zip(*(rows[name].to_pylist() for name in SCALARS), strict=True):
        known = {name: value for name, value in zip(SCALARS, values, strict=True) if value is not None}
        heads.append(f"{before},{json.dumps(known, separators=(',', ':'))[1:-1]}")
    parts: list[Any] = [pa.array(heads, pa.binary())]
    for name in LISTS:
        values = rows[name].flatten()
        text = WORDS.take(values) if name == "op" else pc.cast(values, pa.string())
        offsets = pa.concat_arrays([FROM_THE_START, pc.cumulative_sum(pc.list_value_length(rows[name]))])
        joined = pc.binary_join(pa.ListArray.from_arrays(offsets, text), ",").cast(pa.binary())
        parts += [f',"{name}":['.encode(), joined, b"]"]
    lines: list[bytes] = pc.binary_join_element_wise(*parts, b"}\n", b"").to_pylist()
    return lines
