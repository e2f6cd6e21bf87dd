"""Export timeline: one step of one unit as recorded, replayed and ideal, for Perfetto or chrome://tracing.

`python -m jobs.export_timeline --job-id J --step N` writes a trace and says where; nothing else is written.
"""

import gzip
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Final, TextIO

from jobs.arguments import OF_UNIT, Arguments, not_negative, option
from jobs.printing import shown
from jobs.reading.command import reader_entry_point
from jobs.reading.reader import Reader
from jobs.reading.unit import unit_to_replay
from jobs.settings import Settings, SettingsError
from schemas.unit import Unit
from udfs.result_tables import SIMULATOR_VERSION
from udfs.timelines import KINDS, StepTimelines, step_timelines
from udfs.trace_events import arrows_left_out, trace_events

_COMPRESSION: Final = 6


def write_trace(target: Path, unit: Unit, found: StepTimelines, ideal: str) -> int:
    """Write a trace, packed if the name ends in .gz; returns the number of events. Same step, same bytes."""
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
        for count, event in enumerate(trace_events(found), start=1):
            line = json.dumps(event, separators=(",", ":"), allow_nan=False)
            out.write(f",\n{line}" if count > 1 else f"\n{line}")
        out.write("\n]}\n")
    return count


@contextmanager
def _opened(target: Path) -> Iterator[TextIO]:
    """Open a file for writing, packed or not; without name and time in the packed one's head."""
    with target.open("wb") as file:
        if target.suffix == ".gz":
            with gzip.GzipFile("", "wb", _COMPRESSION, file, mtime=0) as packed, TextIOWrapper(packed) as out:
                yield out
        else:
            with TextIOWrapper(file, "utf-8") as out:
                yield out


def file_name(unit: Unit, step: int) -> str:
    """Name of a trace where none is given: names may hold any text, files not."""
    named = f"timeline-{unit.job_id}-{unit.run_id}-{unit.log_date}-step-{step}"
    return re.sub(r"[^\w.-]+", "_", named)[:200] + ".json.gz"


def _summary(unit: Unit, found: StepTimelines, ideal: str) -> str:
    workers = found.layout.dp_size * found.layout.pp_size
    recorded, replayed, at_best = (shown(found.step_s(kind)) for kind in KINDS)
    on_path = ", ".join(str(len(found.critical[kind])) for kind in KINDS)
    left_out = arrows_left_out(found)
    return (
        f"{unit.job_id}, run {unit.run_id}, {unit.log_date}, step {found.step}: "
        f"{found.ops:,} ops of {workers:,} workers\n"
        f"step time: {recorded} s recorded, {replayed} s replayed, {at_best} s ideal ({ideal}); "
        f"ops on the critical path: {on_path}\n"
    ) + (f"{left_out:,} pairs have no arrow: the recv ended before the send began\n" if left_out else "")


@reader_entry_point(
    "export_timeline",
    *OF_UNIT,
    option("--step N", "training step; the slowest replayed one if left out", not_negative),
    option(
        "--out FILE",
        "the trace, packed if it ends in .gz; timeline-JOB-RUN-DATE-step-N.json.gz if left out",
        Path,
    ),
)
def main(reader: Reader, settings: Settings, args: Arguments) -> None:
    """Write one step as recorded, replayed and ideal, for Perfetto or chrome://tracing."""
    with unit_to_replay("export_timeline", reader, args) as (unit, rank_steps, manifest):
        simulation = settings.simulation
        found = step_timelines(rank_steps, manifest, args.step, simulation.ideal, simulation.ops_together)
        target = args.out or Path(file_name(unit, found.step))
        try:
            events = write_trace(target, unit, found, settings.simulation.ideal)
        except OSError as error:
            raise SettingsError(f"--out: {error.filename}: {error.strerror}") from error
    sys.stdout.write(_summary(unit, found, settings.simulation.ideal))
    size = target.stat().st_size / 1e6
    sys.stdout.write(
        f"{target}: {events:,} events, {size:.1f} MB; open it in https://ui.perfetto.dev (nothing is sent) "
        "or chrome://tracing\n"
    )


if __name__ == "__main__":
    sys.exit(main())
