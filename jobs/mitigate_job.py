"""Mitigate: show the time saved by moved layers, balanced sequences, an exchanged host or another mitigation.

`straggler mitigate gpt-175b --layers 96` replays one unit once for each mitigation, with all else as
recorded. Nothing is written; a night runs the same replays and stores their results in the table mitigations.
"""

import sys
from collections.abc import Mapping
from dataclasses import astuple, fields
from math import inf
from pathlib import Path
from typing import Any

import click
import pyarrow as pa

from jobs.entry_points.command import ENGINE, reader_of, settings_entry_point
from jobs.landing.one_run import one_run_in
from jobs.reading.analysis import analysis
from jobs.reading.sides import simulated
from jobs.reading.unit import Asked, NotReplayedError, asked, find_unit, read_unit
from jobs.runtime.arguments import AS_LISTS, FORMAT, Arguments, option
from jobs.runtime.plural import plural
from jobs.runtime.printing import Result, is_for_people, shown, write
from jobs.runtime.progress import working
from jobs.runtime.settings import Settings
from jobs.warehouse.reader import QuestionError
from schemas.unit import Unit
from udfs.errors import NothingToReplayError, TraceError
from udfs.mitigations import Mitigation, mitigated
from udfs.simulate.mitigation_rows import LABEL, LayersError, parsed_layers
from udfs.what_if import SimulationSettings


def memory(text: str) -> float:
    """Parse a multiple of the present memory use; raise ValueError for other texts and for less than 1."""
    value = float(text)
    if not value >= 1.0:
        raise ValueError(f"{text!r} is less than 1, the present use")
    return value


def _source(
    of: str | Asked, settings: Settings, engine: str | None
) -> tuple[Unit, pa.Table, Mapping[str, Any], SimulationSettings]:
    """Return a unit, its rows of rank_steps, its manifest and simulation settings.

    of : the folder of a run, or a unit of the warehouse
    """
    if isinstance(of, str):
        run = one_run_in(Path(of))
        found = analysis(run)
        return found.unit, *simulated(found, has_day=run.has_day)
    with reader_of(settings, "mitigate", engine) as reader:
        unit = find_unit(reader, of.text)
        return unit, *read_unit(reader, unit), SimulationSettings(**settings.simulation.model_dump())


@settings_entry_point(
    "mitigate",
    ENGINE,
    option("of RUN", "a folder of logs, or JOB or JOB/RUN in the warehouse, on its latest day or @DAY"),
    option(
        "--layers N|N,N,...",
        f"layers of the model, or of each chunk; default: the manifest's label {LABEL!r}",
        parsed_layers,
    ),
    option(
        "--memory N",
        "memory limit, such as 1.1: N times the layers of the fullest stage, and the samples of a microbatch",
        memory,
        default=inf,
    ),
    FORMAT,
    AS_LISTS,
)
def main(settings: Settings, args: Arguments) -> None:
    """Print the time saved by mitigations of one unit: layers, sequences, hosts, replicas, checkpoints."""
    try:
        of = args.of if Path(args.of).exists() else asked(args.of)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    try:
        with working("mitigate: replaying"):
            unit, rank_steps, manifest, how = _source(of, settings, args.engine)
            found = mitigated(rank_steps, manifest, args.layers, how, args.memory)
    except LayersError as error:
        raise QuestionError(f"--layers: {error}") from error
    except (NothingToReplayError, TraceError) as error:
        raise NotReplayedError(str(error)) from error
    recorded = f"{plural(found.steps, 'step')}, {shown(found.actual_step_s)} s recorded (T_actual)"
    heading = [f"{unit.words}: {recorded}", *(f"no {name}: {why}" for name, why in found.without.items())]
    # Programs that read csv, json or tab get only rows on standard output.
    out = sys.stdout if is_for_people(args.format, sys.stdout) else sys.stderr
    out.write("\n".join(heading) + "\n")
    columns = [field.name for field in fields(Mitigation)]
    rows = Result(columns, [astuple(each) for each in found.answers])
    write(rows, args.format, sys.stdout, as_lists=args.as_lists)


if __name__ == "__main__":
    sys.exit(main())
