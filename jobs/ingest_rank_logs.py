"""Ingest one log date: read the logs, manifests and health files of the landing into tables."""

import sys

from jobs.entry_points import inputs
from jobs.night.ingest import run
from jobs.night.phase_run import phase_command
from schemas.vocabulary import Phase

main = phase_command(
    Phase.INGEST,
    run,
    "Ingest a log date: read its logs from the landing into rank_steps, jobs and other tables.",
    inputs.logs_of_a_day,
)

if __name__ == "__main__":
    sys.exit(main())
