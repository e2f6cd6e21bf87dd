"""Named queries over any period: the paper's headline figures, and questions of a fleet's owner.

Each query is an .sql file; the comment at its top is its meaning.
"""

from dataclasses import replace
from typing import Final

from schemas import views
from schemas.sql_files import OF_PERIOD, SqlFile, load, runs_include, within

_RUNS: Final = runs_include("job_id, run_id", OF_PERIOD)
_OF_VIEWS: Final = {"hosts": "host_record", "fix_first": "fix_first"}
"""Named queries that are a view restricted to a period, with the name of the view."""

QUERY_NAMES: Final = (
    "coverage", "straggling", "waste_distribution", "waste_by_op_type", "step_persistence",
    "slow_workers", "last_stage", "sequence_imbalance", "groups", "causes", "trend", "discrepancy",
    "runs", "weeks", "mixed_hardware", "waterfall", "goodput", *_OF_VIEWS,
)  # fmt: skip


def _load(name: str) -> SqlFile:
    if name in _OF_VIEWS:
        return replace(load(views.__name__, _OF_VIEWS[name], **within(OF_PERIOD)), name=name)
    return load(__name__, name, in_period=OF_PERIOD, runs=_RUNS)


QUERIES: Final[dict[str, SqlFile]] = {name: _load(name) for name in QUERY_NAMES}
