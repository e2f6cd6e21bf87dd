"""Writes how long the ranks of a generated job were in collectives, as NCCL Inspector logs it."""

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Final

from jobs.synthetic.job import GeneratedJob
from schemas.vocabulary import OP_CODES

COLLECTIVES: Final = {
    OP_CODES["params-all-gather"]: "AllGather",
    OP_CODES["grads-reduce-scatter"]: "ReduceScatter",
}


def write_inspector_logs(folder: Path, job: GeneratedJob) -> None:
    """Write one log for each recorded rank, of collectives of its data-parallel group."""
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
