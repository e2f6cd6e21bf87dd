"""Compare versions: list the units whose results a new version, or other settings, would change.

First `backfill --warehouse-new DIR` computes new results in a separate warehouse, from the ingested tables of
the current warehouse. This command then compares the results in the two warehouses; with --make-current it
also replaces the current results by the new ones.
"""

import logging
import sys
import time
from collections.abc import Sequence
from datetime import date
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from jobs import backfill
from jobs.entry_points import inputs
from jobs.entry_points.cli import entry_point
from jobs.entry_points.run_log import added
from jobs.gates.write_audit_publish import publish
from jobs.history.fingerprints import recorded
from jobs.history.phases import OF_DAYS
from jobs.history.plan import in_batches, plan
from jobs.reading.spark_reader import collected
from jobs.runtime.arguments import (
    AS_LISTS,
    FORMAT,
    PERIOD,
    Arguments,
    not_negative,
    not_negative_number,
    option,
)
from jobs.runtime.plural import plural
from jobs.runtime.printing import write
from jobs.runtime.progress import working
from jobs.runtime.settings import Settings, SettingsError, with_new_warehouse
from jobs.runtime.terminal import complain
from jobs.transforms.versions import changed_units, results_with_causes
from jobs.warehouse.reader import keys_of
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import JOB_CAUSES, JOB_SLOWDOWN, RESULT_TABLES, Phase

_LOG: Final = logging.getLogger(__name__)


def run(
    spark: SparkSession, settings: Settings, new: Settings, log_dates: Sequence[date], tolerance: float
) -> DataFrame:
    """Return a row for each unit whose status, slowdown or causes differ between the two warehouses.

    new : the settings with the new warehouse
    tolerance : differences of slowdown up to this are ignored: see transforms.versions.changed_units
    """
    sides = (Warehouse(spark, each.paths.warehouse) for each in (settings, new))
    current, other = (
        results_with_causes(*(side.read(TABLES[name], log_dates) for name in (JOB_SLOWDOWN, JOB_CAUSES)))
        for side in sides
    )
    return changed_units(current, other, tolerance)


def make_current(
    spark: SparkSession, settings: Settings, new: Settings, log_dates: Sequence[date]
) -> dict[str, int]:
    """Replace the current results by the new ones in batches of days, and rerun the later phases.

    Units without new results keep their current ones. If the call is interrupted, a second call, or a
    backfill, completes it.
    """
    started = time.monotonic()
    _LOG.info("results of %s .. %s in %s become current", log_dates[0], log_dates[-1], new.paths.warehouse)
    source, target = (Warehouse(spark, each.paths.warehouse) for each in (new, settings))
    counts: dict[str, int] = {}
    for days in in_batches(log_dates, settings):
        ours, theirs = (_units(warehouse, days) for warehouse in (target, source))
        units = None if ours <= theirs else theirs
        rows = {name: source.rows(TABLES[name], days) for name in RESULT_TABLES}
        done = list(recorded(source, days, phase=Phase.SIMULATE)[Phase.SIMULATE].values())
        added(counts, publish(Phase.SIMULATE, target, rows, days, units=units, fingerprints=done).rows)
    todo = plan(target, settings, log_dates, OF_DAYS)
    added(counts, backfill.run(spark, settings, todo))
    _LOG.info("the new results are current, after %.1f s", time.monotonic() - started)
    return counts


def _units(warehouse: Warehouse, days: Sequence[date]) -> set[Unit]:
    return set(keys_of(warehouse.rows(TABLES[JOB_SLOWDOWN], days)))


@entry_point(
    "compare_versions",
    option(
        "--warehouse-new DIR", "warehouse with the new results, from backfill --warehouse-new", required=True
    ),
    *PERIOD,
    option(
        "--tolerance X",
        "ignore differences of slowdown up to this value",
        not_negative_number,
        default=1e-9,
    ),
    FORMAT,
    AS_LISTS,
    option("--limit N", "maximum number of rows; 0: all", not_negative, default=0),
    option("--make-current", "then replace the current results with the new ones"),
    reads=lambda settings, args: inputs.a_warehouse(with_new_warehouse(settings, args.warehouse_new), args),
    writes_to=lambda settings, args: settings.paths.warehouse if args.make_current else None,
)
def main(spark: SparkSession, settings: Settings, args: Arguments) -> dict[str, int]:
    """List the units whose status, slowdown or causes change under a new version."""
    new = with_new_warehouse(settings, args.warehouse_new)
    beside = Warehouse(spark, new.paths.warehouse)
    rows = beside.read(TABLES[JOB_SLOWDOWN]).select("log_date").distinct().collect()
    first, last = args.first or date.min, args.last or date.max
    days = sorted(row["log_date"] for row in rows if first <= row["log_date"] <= last)
    if not days:
        raise SettingsError(f"--warehouse-new: no results of these days in {new.paths.warehouse}")
    changes = run(spark, settings, new, days, args.tolerance).persist()
    try:
        with working("compare_versions: comparing"):
            result = collected(changes, args.limit)
        write(result, args.format, sys.stdout, as_lists=args.as_lists)
        compared = len(_units(beside, days))
        found = changes.groupBy("changed").count().orderBy("changed").collect()
    finally:
        changes.unpersist()
    text = "; ".join(f"{row['count']:,} {row['changed']}" for row in found) or "none changed"
    complain(f"{plural(compared, 'unit')} of {days[0]} .. {days[-1]} compared: {text}")
    return make_current(spark, settings, new, days) if args.make_current else {}


if __name__ == "__main__":
    sys.exit(main())
