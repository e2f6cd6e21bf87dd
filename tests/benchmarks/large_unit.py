"""One unit through the function that Spark's Python workers run; prints time, yardstick and peak memory."""

import ast
import json
import sys
import time
from collections.abc import Iterator
from datetime import date
from typing import Final

import pyarrow as pa

from schemas.vocabulary import UNIT_KEY
from tests.benchmarks.growth import peak_mib
from tests.benchmarks.yardstick import yardstick_ms
from udfs.unit_batches import MANIFEST, SIMULATED_COLUMNS, results_of, simulate_batches
from udfs.what_if import SimulationSettings

KEY: Final = (date(2026, 1, 5), "one", "r1")


def main(path: str, manifest: str) -> None:
    """Stream the rows as Spark would: batch by batch, the manifest first."""
    started = time.perf_counter()
    batches = simulate_batches(SimulationSettings())(_batches(path, ast.literal_eval(manifest)))
    results = results_of(pa.Table.from_batches(batches))
    took_s = time.perf_counter() - started
    (job,) = results["job_slowdown"].to_pylist()
    if job["status"] != "analysed":
        raise SystemExit(f"the job is {job['status']}: {job['status_detail']}")
    print(took_s, yardstick_ms(), peak_mib())


def _batches(path: str, manifest: dict[str, object]) -> Iterator[pa.RecordBatch]:
    with pa.ipc.open_file(path) as file:
        for number in range(file.num_record_batches):
            rows = pa.Table.from_batches([file.get_batch(number)]).select(SIMULATED_COLUMNS)
            rows = rows.append_column(MANIFEST, pa.nulls(rows.num_rows, pa.string()))
            if not number:
                first = pa.Table.from_pylist([{MANIFEST: json.dumps(manifest)}])
                rows = pa.concat_tables([rows.slice(0, 0), first, rows], promote_options="default")
            for name, value in zip(UNIT_KEY, KEY, strict=True):
                rows = rows.append_column(name, pa.repeat(value, rows.num_rows))
            yield from rows.combine_chunks().to_batches()


if __name__ == "__main__":
    main(*sys.argv[1:])
