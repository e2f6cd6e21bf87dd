"""Writer of the timelines of one step, recorded, replayed and ideal, as a trace file for Perfetto."""

import gzip
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Final, TextIO

from schemas.unit import Unit
from udfs.simulate.result_tables import SIMULATOR_VERSION
from udfs.timeline.timelines import KINDS, StepTimelines, Worker
from udfs.timeline.trace_events import trace_events

_COMPRESSION: Final = 6


def write_trace(target: Path, unit: Unit, found: StepTimelines, workers: Sequence[Worker], ideal: str) -> int:
    """Write a trace of some workers, gzipped if the name ends in .gz; return the number of events.

    The same step and workers give the same bytes.
    """
    about = {
        "job_id": unit.job_id,
        "run_id": unit.run_id,
        "log_date": unit.log_date.isoformat(),
        "step": found.step,
        "t0_us": found.t0_us,
        **found.layout._asdict(),
        **{f"{kind}_step_s": found.step_s(kind) for kind in KINDS},
        "ideal": ideal,
        "simulator_version": SIMULATOR_VERSION,
    }
    count = 0
    with _opened(target) as out:
        out.write(f'{{"displayTimeUnit":"ms","otherData":{json.dumps(about)},"traceEvents":[')
        for count, event in enumerate(trace_events(found, workers), start=1):
            line = json.dumps(event, separators=(",", ":"), allow_nan=False)
            out.write(f",\n{line}" if count > 1 else f"\n{line}")
        out.write("\n]}\n")
    return count


@contextmanager
def _opened(target: Path) -> Iterator[TextIO]:
    """Open a text file for writing; gzip it if its name ends in .gz, without name and time in the header."""
    with target.open("wb") as file:
        if target.suffix == ".gz":
            with gzip.GzipFile("", "wb", _COMPRESSION, file, mtime=0) as packed, TextIOWrapper(packed) as out:
                yield out
        else:
            with TextIOWrapper(file, "utf-8") as out:
                yield out


def file_name(unit: Unit, step: int) -> str:
    """Return the default file name of a trace, with special characters in ids replaced."""
    named = f"timeline-{unit.job_id}-{unit.run_id}-{unit.log_date}-step-{step}"
    return re.sub(r"[^\w.-]+", "_", named)[:200] + ".json.gz"
