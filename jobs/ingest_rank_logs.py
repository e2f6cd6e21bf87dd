"""Ingest one log date: load the logs and manifests of producers into tables."""

import sys

from jobs.entry_points import inputs
from jobs.night.ingest import run
from jobs.night.phase_run import phase_command
from schemas.vocabulary import Phase

main = phase_command(
    Phase.INGEST, run, "Ingest a log date: landing to rank_steps, jobs, rejects.", inputs.logs_of_a_day
)

if __name__ == "__main__":
    sys.exit(main())
