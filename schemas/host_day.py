"""host_day: the slowdowns of one host on one log date."""

from schemas.fields import HOST, LOG_DATE, SLOWDOWN, count, described
from schemas.table import Expectation, Table
from schemas.vocabulary import HOST_DAY

TABLE = Table(
    name=HOST_DAY,
    meaning=(
        "One row per log date and host in worker_slowdown: workers without a logged host "
        "are left out. Counts all replayed units."
    ),
    grain=("log_date", "host"),
    columns=(
        LOG_DATE,
        described(HOST, "machine", nullable=False),
        count("workers", "workers replayed on it, over all units"),
        count("jobs", "units with a worker on it"),
        count("times_slowest", "how often one of its workers was among the slowest 3 % of its unit"),
        described(SLOWDOWN, "highest slowdown of its workers, each alone", name="worker_slowdown_max"),
        described(
            SLOWDOWN, "median slowdown of its workers, each alone (exact)", name="worker_slowdown_median"
        ),
    ),
    expectations=(
        Expectation("has_workers", "workers >= 1 AND jobs >= 1", "a host without a worker has no row"),
        Expectation(
            "counts_are_nested",
            "times_slowest <= workers AND jobs <= workers",
            "neither exceeds the number of workers",
        ),
        Expectation(
            "median_is_below_max",
            "worker_slowdown_median <= worker_slowdown_max",
            "the median is at most the max",
        ),
    ),
)
