"""Release: let through, for one log date, what a gate has refused; who does it and why is recorded.

Nothing is published by it: the refused phase has to run again, and then publishes with a warning.
"""

import logging
import shlex
import sys
from typing import Final

from pyspark.sql import SparkSession

from jobs.gates.releases import ENTRY_POINT, NEVER, Release, record_release, refused
from jobs.runtime.arguments import LOG_DATE, Arguments, option
from jobs.runtime.cli import entry_point
from jobs.runtime.settings import Settings, SettingsError
from jobs.warehouse.tables import Warehouse

_LOG: Final = logging.getLogger(__name__)


def run(spark: SparkSession, settings: Settings, release: Release, arguments: str = "") -> None:
    """Record a release; raises SettingsError for what no gate of this warehouse has refused on any day."""
    warehouse = Warehouse(spark, settings.paths.warehouse)
    known = refused(warehouse)
    unknown = [name for name in release.accepted if name not in known]
    if unknown:
        listed = ", ".join(sorted(known)) or "nothing at all"
        raise SettingsError(
            f"--accept {unknown[0]}: no gate has refused that in {warehouse.root}; refused were: {listed}"
        )
    record_release(warehouse, release, arguments)
    _LOG.info("%s: released %s; run the refused phase again", release.log_date, ", ".join(release.accepted))


def _refusal(text: str) -> str:
    table, dot, expectation = text.partition(".")
    if not (table and dot and expectation):
        raise ValueError(f"{text!r} is not table.expectation, as the refusal named it")
    if expectation in NEVER:
        raise ValueError(f"{text}: without it the table cannot be written; nothing releases it")
    return text


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty")
    return text


@entry_point(
    ENTRY_POINT,
    LOG_DATE,
    option(
        "--accept NAME",
        "what the refusal named, such as fleet_day.every_unit_has_one_status; may be given several times",
        _refusal,
        multiple=True,
        required=True,
    ),
    option("--by WHO", "who takes the responsibility", _not_blank, required=True),
    option("--because WHY", "why the rows are good enough", _not_blank, required=True),
    writes_to=None,
)
def main(spark: SparkSession, settings: Settings, args: Arguments) -> dict[str, int]:
    """Let through what a gate has refused on a log date."""
    release = Release(args.log_date, args.accept, args.by, args.because)
    run(spark, settings, release, shlex.join(args.arguments))
    return {}


if __name__ == "__main__":
    sys.exit(main())
