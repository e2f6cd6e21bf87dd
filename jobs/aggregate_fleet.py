"""Aggregate one log date: sum the results of its units over the fleet, and by cause, host and group."""

import sys

from jobs.night.aggregate import run
from jobs.night.phase_run import phase_command
from schemas.vocabulary import Phase

main = phase_command(
    Phase.AGGREGATE,
    run,
    "Aggregate the results of a log date, and of later days whose causes were revised, into fleet tables.",
)

if __name__ == "__main__":
    sys.exit(main())
