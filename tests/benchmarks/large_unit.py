"""One unit through the function that Spark's Python workers run; prints time, yardstick and peak memory."""

import ast
import sys
import time
from datetime import date
from typing import Final

import pyarrow as pa

from schemas.unit import Unit
from tests.benchmarks.growth import peak_mib
from tests.benchmarks.yardstick import yardstick_ms
from udfs.simulate.unit_batches import SIMULATED_COLUMNS, UnitRows, simulate_unit
from udfs.what_if import SimulationSettings

KEY: Final = Unit(date(2026, 1, 5), "one", "r1")


def main(path: str, manifest: str) -> None:
    """Read the rows and simulate them, as a worker does."""
    started = time.perf_counter()
    with pa.ipc.open_file(path) as file:
        rows = file.read_all().select(SIMULATED_COLUMNS)
    results = simulate_unit(UnitRows(KEY, ast.literal_eval(manifest), rows), SimulationSettings())
    took_s = time.perf_counter() - started
    (job,) = results["job_slowdown"].to_pylist()
    if job["status"] != "analysed":
        raise SystemExit(f"the job is {job['status']}: {job['status_detail']}")
    print(took_s, yardstick_ms(), peak_mib())


if __name__ == "__main__":
    main(*sys.argv[1:])
