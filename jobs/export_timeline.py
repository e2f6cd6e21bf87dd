"""Export timeline: one step of one unit as recorded, replayed and ideal, for Perfetto or chrome://tracing.

`straggler timeline --job-id J --step N` writes the three timelines as one trace file and prints its path.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from jobs.entry_points.command import reader_entry_point
from jobs.reading.trace_file import file_name, write_trace
from jobs.reading.unit import unit_to_replay
from jobs.runtime.arguments import OF_UNIT, Arguments, not_negative, option
from jobs.runtime.perfetto import show
from jobs.runtime.plural import plural
from jobs.runtime.printing import shown
from jobs.runtime.settings import Settings, SettingsError
from jobs.runtime.terminal import say
from jobs.warehouse.reader import Reader
from schemas.unit import Unit
from udfs.timeline.timelines import (
    KINDS,
    StepTimelines,
    Worker,
    culprits_and_neighbours,
    of_rank,
    of_stage,
    step_timelines,
)
from udfs.timeline.trace_events import arrows_left_out, lanes
from udfs.what_if import SimulationSettings


def _worker(text: str) -> Worker | int:
    """Parse a worker, given as DP,PP or as a rank."""
    numbers = [not_negative(each) for each in text.split(",")]
    if len(numbers) > 2:
        raise ValueError(f"{text!r} is neither DP,PP such as 3,1 nor a rank such as 17")
    return numbers[0] if len(numbers) == 1 else (numbers[0], numbers[1])


def _summary(unit: Unit, found: StepTimelines, shown_workers: Sequence[Worker], ideal: str) -> list[str]:
    workers = found.layout.dp_size * found.layout.pp_size
    left = workers - len(shown_workers)
    others = f"; {plural(left, 'other')} left out: --worker DP,PP or --stage N shows them" if left else ""
    recorded, replayed, at_best = (shown(found.step_s(kind)) for kind in KINDS)
    on_path = ", ".join(str(len(found.critical[kind])) for kind in KINDS)
    in_lanes = plural(lanes(found, shown_workers), "lane")
    left_out = arrows_left_out(found, shown_workers)
    none_before = f"no arrow for {plural(left_out, 'pair')}: the recv ended before the send began"
    return [
        f"{unit.words}, step {found.step}: {plural(found.ops, 'op')} of {plural(workers, 'worker')}",
        (
            f"step time: {recorded} s recorded, {replayed} s replayed, {at_best} s ideal ({ideal}); "
            f"ops on the critical path: {on_path}"
        ),
        f"shown: {plural(len(shown_workers), 'worker')} in {in_lanes}{others}",
        *([none_before] if left_out else []),
    ]


@reader_entry_point(
    "export_timeline",
    *OF_UNIT,
    option("--step N", "training step; default: the slowest replayed one", not_negative),
    option(
        "--out FILE",
        "file for the trace, gzipped if it ends in .gz; default: timeline-JOB-RUN-DATE-step-N.json.gz",
        Path,
    ),
    option(
        "--worker DP,PP",
        "show this worker, by dp rank and stage or by rank; repeatable. Default: the workers that lose most "
        "in the step, each with another worker of its stage and those of the stages before and after it",
        _worker,
        multiple=True,
    ),
    option("--stage N", "show all workers of this stage, counted from 0", not_negative),
    option("--open", "then show the trace in Perfetto in a local browser, until Ctrl+C"),
)
def main(reader: Reader, settings: Settings, args: Arguments) -> None:
    """Write one step as recorded, replayed and ideal, for Perfetto or chrome://tracing."""
    with unit_to_replay("export_timeline", reader, args) as (unit, rank_steps, manifest):
        simulation = SimulationSettings(**settings.simulation.model_dump())
        found = step_timelines(rank_steps, manifest, args.step, simulation)
        target = args.out or Path(file_name(unit, found.step))
        layout, workers = found.layout, []
        for each in args.worker:
            worker = of_rank(found, each) if isinstance(each, int) else each
            if worker is None:
                raise SettingsError(f"--worker {each}: no worker is replayed by that rank; name it as DP,PP")
            if worker[0] >= layout.dp_size or worker[1] >= layout.pp_size:
                size = f"dp ranks 0 to {layout.dp_size - 1} and stages 0 to {layout.pp_size - 1}"
                raise SettingsError(f"--worker {worker[0]},{worker[1]}: the job has {size}")
            workers.append(worker)
        if args.stage is not None:
            if args.stage >= layout.pp_size:
                raise SettingsError(f"--stage {args.stage}: the job has stages 0 to {layout.pp_size - 1}")
            workers += of_stage(found, args.stage)
        workers = list(dict.fromkeys(workers or culprits_and_neighbours(found)))
        try:
            events = write_trace(target, unit, found, workers, settings.simulation.ideal)
        except OSError as error:
            raise SettingsError(f"--out: {error.filename}: {error.strerror}") from error
    say(*_summary(unit, found, workers, settings.simulation.ideal))
    kilobytes = target.stat().st_size / 1e3
    size = f"{kilobytes / 1e3:.1f} MB" if kilobytes >= 1e3 else f"{kilobytes:.0f} kB"
    say(
        f"{target}: {events:,} events, {size}; --open shows it in Perfetto, "
        "https://ui.perfetto.dev opens the file too (nothing is sent)"
    )
    if args.open:
        show(target)


if __name__ == "__main__":
    sys.exit(main())
