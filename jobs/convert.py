"""Convert: writes logs of another tool as rank logs into a landing; with --check, only prints a summary.

`python -m jobs.convert FOLDER --check` needs no Spark. A job.json among the files adds what they lack.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click

from jobs.emitter.rank_log_writer import SAFE_NAME
from jobs.landing.conversion import Conversion, ConversionError
from jobs.landing.files import MANIFEST
from jobs.landing.formats.manifest import SIZES
from jobs.runtime.arguments import Arguments, called, command, log_date, option
from schemas.vocabulary import EXIT_DONE, EXIT_FAILED, TRANSFERS_MEASURED

_MOST_LAST: Final = 3


@command(
    "convert",
    option("path PATH", "files of the run, or its folder", Path, nargs=-1, required=True),
    option("--check", "only print what would be written"),
    option("--landing DIR", "where to write", Path),
    option("--job-id JOB", "the job"),
    option("--run-id RUN", "its run"),
    option("--log-date DATE", "the day under which to write, as 2026-01-05", log_date),
)
def main(args: Arguments) -> int:
    """Convert the logs of one run of another tool, or print a summary of them.

    Exits with 1 for a log that cannot be replayed.
    """
    if not args.check and None in (args.landing, args.job_id, args.run_id, args.log_date):
        raise click.UsageError("--landing, --job-id, --run-id and --log-date say where to; or --check")
    for name in filter(None, (args.job_id, args.run_id)):
        if not SAFE_NAME.fullmatch(name):
            raise click.UsageError(f"{name!r} cannot name a job or run: letters, digits and ._+@=~- can")
    try:
        files = [file for path in args.path for file in _files(path)]
        given = _given(files)
        found = Conversion(
            [file for file in files if file.name != MANIFEST],
            {name: value for name, value in given.items() if name not in {"job_id", "run_id"}},
            (args.job_id or "job", args.run_id or "run"),
        )
        sys.stdout.writelines(f"{line}\n" for line in _report(found))
        if not args.check:
            sys.stdout.write(f"written: {found.write(args.landing, args.log_date)}\n")
    except (ConversionError, OSError) as error:
        sys.stderr.write(f"{called()}: error: {error}\n")
        return EXIT_FAILED
    return EXIT_DONE


def _files(path: Path) -> list[Path]:
    """Return a file, or the files of a folder except hidden ones."""
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))


def _given(files: Sequence[Path]) -> dict[str, Any]:
    """Return the fields of the job.json among the files."""
    for file in files:
        if file.name == MANIFEST:
            try:
                found = json.loads(file.read_bytes())
            except (ValueError, RecursionError) as error:
                raise click.UsageError(f"{file} is not JSON: {error}") from None
            if not isinstance(found, dict):
                raise click.UsageError(f"{file} is no JSON object")
            return found
    return {}


def _report(found: Conversion) -> Iterator[str]:
    job = found.job
    sizes = ", ".join(f"{name} {job[name]}" for name in SIZES if job[name] is not None)
    yield f"format: {job['source_format']}; transfers {job['transfers']}"
    yield f"layout: {sizes or 'unknown'}"
    if job["manifest_detail"]:
        yield f"job.json has to say: {job['manifest_detail']}"
    yield (
        f"understood: {found.ops:,} ops of {_distinct(found, 'rank'):,} ranks "
        f"in {_distinct(found, 'step'):,} steps, {found.rows.num_rows:,} rows"
    )
    if job["warm_up_steps"]:
        yield f"not replayed: the first {job['warm_up_steps']} steps, which are warm-up"
    if job["transfers"] != TRANSFERS_MEASURED:
        yield "status: partial_trace; slow computes and bounds of the slowdown, and no slowdown"
    for row in sorted(found.arrivals.to_pylist(), key=lambda row: -row["times_last"])[:_MOST_LAST]:
        where = f"{row['collectives']} collectives of {row['communicator']}"
        yield f"came last: rank {row['rank']}, to {row['times_last']} of {where}"
    for name, why in found.broken.items():
        yield f"broken: {name}: {why}"
    for what, count in found.left_out.most_common():
        yield f"left out: {count:,} x {what}"


def _distinct(found: Conversion, name: str) -> int:
    return len(found.rows[name].unique())


if __name__ == "__main__":
    sys.exit(main())
