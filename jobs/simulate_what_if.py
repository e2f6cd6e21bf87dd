"""Simulate one log date: compute how long the steps of each unit would have taken without stragglers."""

import sys

from jobs.night.phase_run import phase_command
from jobs.night.simulate import run
from schemas.vocabulary import Phase

main = phase_command(
    Phase.SIMULATE, run, "Simulate a log date: replay the ops in rank_steps, and write the result tables."
)

if __name__ == "__main__":
    sys.exit(main())
