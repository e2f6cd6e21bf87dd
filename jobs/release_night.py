"""Release: accept for one log date rows that a gate refused, and record who did so and why.

The command itself publishes nothing: run the refused phase again, which then publishes with a warning.
"""

import logging
import shlex
import sys
from collections.abc import Sequence
from datetime import date
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession

from jobs.entry_points.cli import entry_point
from jobs.entry_points.run_log import new_run
from jobs.gates.checks import OF_EVERY_TABLE
from jobs.runtime.arguments import LOG_DATE, Arguments, option
from jobs.runtime.settings import Settings, SettingsError
from jobs.warehouse.tables import Warehouse
from schemas.log_tables import PIPELINE_RUNS as TABLE
from schemas.vocabulary import RUN_OUTCOMES, Exit

_NAME: Final = "release_night"
_LOG: Final = logging.getLogger(__name__)


class Release(NamedTuple):
    """A release for a log date: names of refusals (table.expectation), the person and the reason."""

    log_date: date
    accepted: Sequence[str]
    by: str
    because: str


def run(spark: SparkSession, settings: Settings, release: Release, arguments: str = "") -> None:
    """Record a release. Raises SettingsError for a name that no gate of this warehouse has refused."""
    warehouse = Warehouse(spark, settings.paths.warehouse)
    known = refused(warehouse)
    unknown = [name for name in release.accepted if name not in known]
    if unknown:
        listed = ", ".join(sorted(known)) or "nothing at all"
        raise SettingsError(
            f"--accept {unknown[0]}: no gate has refused that in {warehouse.root}; these were refused: "
            f"{listed}"
        )
    record_release(warehouse, release, arguments)
    _LOG.info("%s: released %s; run the refused phase again", release.log_date, ", ".join(release.accepted))


def refused(warehouse: Warehouse) -> set[str]:
    """Return table.expectation of every refusal that pipeline_runs has recorded for this warehouse."""
    of_runs = warehouse.rows(TABLE)["refusals"].to_pylist()
    return {f"{each['table']}.{each['expectation']}" for refusals in of_runs for each in refusals or ()}


def record_release(warehouse: Warehouse, release: Release, arguments: str) -> None:
    """Append a release to pipeline_runs."""
    row = {
        **new_run(_NAME, arguments, release.log_date),
        "seconds": 0.0,
        "outcome": RUN_OUTCOMES[Exit.DONE],
        "accepted": list(release.accepted),
        "accepted_by": release.by,
        "accepted_because": release.because,
    }
    warehouse.append(TABLE, pa.Table.from_pylist([row], schema=TABLE.arrow_schema))


def _refusal(text: str) -> str:
    table, dot, expectation = text.partition(".")
    if not (table and dot and expectation):
        raise ValueError(f"{text!r} is not table.expectation, as named in the refusal")
    if expectation in OF_EVERY_TABLE:
        raise ValueError(f"{text} cannot be released: without it the table cannot be written")
    return text


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty")
    return text


@entry_point(
    _NAME,
    LOG_DATE,
    option(
        "--accept NAME",
        "table.expectation of a refusal, such as fleet_day.every_unit_has_one_status; repeatable",
        _refusal,
        multiple=True,
        required=True,
    ),
    option("--by WHO", "person who takes responsibility", _not_blank, required=True),
    option("--because WHY", "reason why the rows are acceptable", _not_blank, required=True),
    writes_to=None,
)
def main(spark: SparkSession, settings: Settings, args: Arguments) -> dict[str, int]:
    """Accept for a log date rows that a gate has refused, and record who did so and why."""
    release = Release(args.log_date, args.accept, args.by, args.because)
    run(spark, settings, release, shlex.join(args.arguments))
    return {}


if __name__ == "__main__":
    sys.exit(main())
