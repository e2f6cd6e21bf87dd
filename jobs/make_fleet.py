"""Make a fleet: generate jobs with known faults as a landing folder, with the truth in `_truth`.

With `--history` the command generates months of logs of a fleet like the paper's, with any number of jobs.
For these, `_truth` states the planted causes, but not what each cause costs, because reruns would take too
long.
"""

import sys
from pathlib import Path
from typing import Final

import click

from jobs.runtime.arguments import Arguments, command, log_date, not_negative, option, positive
from jobs.synthetic import paper
from jobs.synthetic.fleet import FIRST_DAY, write_fleet
from jobs.synthetic.plan_fleet import plan_fleet, plan_history
from jobs.synthetic.sample_job import MOST_OPS
from schemas.vocabulary import Exit

OPS_PER_JOB: Final = 100_000
"""Default ops per job of a history, which makes 300 million for as many jobs as the paper has (3,079)."""


@command(
    "make_fleet",
    option("--landing DIR", "an empty or new folder for the logs", Path, required=True),
    option("--history", "generate months of a fleet like the paper's, without true savings"),
    option("--jobs N", f"number of jobs over all days (default for a history: {paper.JOBS:,})", positive),
    option("--days N", f"number of days (default: 1; for a history: {paper.DAYS})", positive),
    option("--seed N", "random seed: another number gives another fleet", not_negative, default=0),
    option("--workers N", "number of worker processes", positive, default=1),
    option("--first-day DATE", "first log date", log_date, default=FIRST_DAY),
    option(
        "--most-ops N",
        f"maximum ops per job and day, without --history (default: about {MOST_OPS})",
        positive,
    ),
    option("--ops N", f"total ops of a history (default: about {OPS_PER_JOB:,} per job)", positive),
)
def main(args: Arguments) -> int:
    """Generate rank logs of a fleet; the folder _truth states the planted faults of every job."""
    if args.landing.exists() and (not args.landing.is_dir() or any(args.landing.iterdir())):
        raise click.UsageError(f"{args.landing} is not an empty folder; name another --landing")
    if args.history and args.most_ops is not None:
        raise click.UsageError("--most-ops is for a fleet; a history has --ops")
    if not args.history and args.ops is not None:
        raise click.UsageError("--ops is for --history; a fleet has --most-ops")
    if not args.history and args.jobs is None:
        raise click.UsageError("a fleet needs --jobs")
    try:
        if args.history:
            jobs, days = args.jobs or paper.JOBS, args.days or paper.DAYS
            fleet = plan_history(jobs, days, args.seed, args.first_day, args.ops or jobs * OPS_PER_JOB)
        else:
            most_ops = args.most_ops or MOST_OPS
            fleet = plan_fleet(args.jobs, args.days or 1, args.seed, args.first_day, most_ops)
    except ValueError as error:
        raise click.UsageError(f"{error}; name more --ops or fewer --jobs") from None
    write_fleet(args.landing, fleet, args.workers)
    return Exit.DONE


if __name__ == "__main__":
    sys.exit(main())
