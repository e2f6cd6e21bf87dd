"""Watch: warn of causes that begin or end in runs in progress, minutes after their first slow step.

Each round simulates the last window of steps of every run in progress, as a night would, and writes the
tables live_slowdown and live_causes. No night reads these tables, and a round does not start while a night
runs.
"""

import logging
import re
import sys
import time
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from jobs.entry_points import inputs
from jobs.entry_points.cli import entry_point
from jobs.entry_points.run_log import one_line
from jobs.entry_points.run_summary import SUMMARY
from jobs.night import live
from jobs.runtime.arguments import Arguments, option
from jobs.runtime.errors import PlainError
from jobs.runtime.interrupts import is_interruption
from jobs.runtime.settings import Settings
from jobs.warehouse.stored import STORE_ERRORS

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600}
_LOG: Final = logging.getLogger(__name__)


def interval_s(text: str) -> float:
    """Parse a time such as 10m; raise ValueError for other texts."""
    found = re.fullmatch(r"([0-9]{1,6})([smh])", text)
    if found is None or not int(found[1]):
        raise ValueError(f"{text!r} is not a time such as 30s, 10m or 1h")
    return float(int(found[1]) * _SECONDS[found[2]])


@entry_point(
    "watch_landing",
    option(
        "--every TIME", "time from the start of a round to the start of the next", interval_s, default="10m"
    ),
    option("--once", "do one round, then end"),
    SUMMARY,
    writes_to=None,
    reads=inputs.a_landing,
)
def main(spark: SparkSession, settings: Settings, args: Arguments) -> dict[str, int]:
    """Warn of causes that begin or end in runs in progress, until the command is stopped.

    The command can be stopped at any moment: the next round catches up. Rounds are skipped while a night or
    another writing command runs.
    """
    while True:
        started_s = time.monotonic()
        try:
            live.run(spark, settings, args.summary)
        except (PlainError, Py4JJavaError, PySparkException, *STORE_ERRORS) as error:
            # A ConnectionError means that the JVM has ended: later rounds would fail too.
            if args.once or isinstance(error, ConnectionError) or is_interruption(error):
                raise
            said = str(error) if isinstance(error, PlainError) else one_line(error)
            _LOG.warning("this round failed, and the next one catches up: %s", said)
        if args.once:
            return {}
        time.sleep(max(started_s + args.every - time.monotonic(), 0.0))


if __name__ == "__main__":
    sys.exit(main())
