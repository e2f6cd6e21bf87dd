"""Revise the causes of one log date, and of later days that depend on it, by other jobs and earlier days."""

import sys

from jobs.night.phase_run import phase_command
from jobs.night.revise import run
from schemas.vocabulary import Phase

main = phase_command(
    Phase.REVISE, run, "Revise the causes of a log date, and of later days that depend on it."
)

if __name__ == "__main__":
    sys.exit(main())
