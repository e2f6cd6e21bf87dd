"""Named queries: the headline figures of the paper, and what a fleet's owner asks, over any period.

One .sql file each, the comment at its top its meaning.
"""

from dataclasses import replace
from typing import Final

from schemas import views
from schemas.sql_files import OF_PERIOD, SqlFile, load, runs_include

_RUNS: Final = runs_include("job_id, run_id", OF_PERIOD)
_HOSTS: Final = "hosts"
"""The view host_record, over a period."""

QUERY_NAMES: Final = (
    "coverage",
    "straggling",
    "waste_distribution",
    "waste_by_op_type",
    "step_persistence",
    "slow_workers",
    "last_stage",
    "sequence_imbalance",
    "groups",
    "causes",
    "trend",
    "discrepancy",
    _HOSTS,
)


def _load(name: str) -> SqlFile:
    if name == _HOSTS:
        return replace(load(views.__name__, "host_record", in_period=OF_PERIOD), name=name)
    return load(__name__, name, in_period=OF_PERIOD, runs=_RUNS)


QUERIES: Final[dict[str, SqlFile]] = {name: _load(name) for name in QUERY_NAMES}
