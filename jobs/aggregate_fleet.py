"""Aggregate one log date: compute figures of the fleet, its causes, hosts and groups."""

import sys

from jobs.night.aggregate import run
from jobs.night.phase_run import phase_command
from schemas.vocabulary import Phase

main = phase_command(
    Phase.AGGREGATE,
    run,
    "Aggregate a log date, and later days whose causes were revised: from result tables to fleet tables.",
)

if __name__ == "__main__":
    sys.exit(main())
