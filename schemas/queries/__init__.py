"""Named queries: the headline figures of the paper, and what a fleet's owner asks, over any period.

One .sql file each, the comment at its top its meaning.
"""

from dataclasses import dataclass
from datetime import date
from typing import Final

from schemas import views
from schemas.sql_files import OF_PERIOD, load, read_from
from schemas.views import VIEW_NAMES
from schemas.vocabulary import TABLE_NAMES

_RUNS: Final = "runs"
"""Include of several queries: the period's runs."""
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


_OPEN: Final = (date(1000, 1, 1), date(9999, 12, 31))
"""Before and after all days, in years of four digits."""


@dataclass(frozen=True)
class NamedQuery:
    """A query over a period: its SQL, and the tables and views that it reads."""

    name: str
    meaning: str
    sql: str

    @property
    def sources(self) -> tuple[str, ...]:
        """Tables and views that the query reads, directly."""
        words = read_from(self.sql)
        return tuple(name for name in (*TABLE_NAMES, *VIEW_NAMES) if name in words)

    def over(self, first_day: date | None = None, last_day: date | None = None) -> str:
        """SQL of the query over a period: both ends included, an end that is left out is open.

        Dates are written into it: Spark 4.2 does not find parameters within a WITH.
        """
        first, last = first_day or _OPEN[0], last_day or _OPEN[1]
        return self.sql.replace(":first_day", f"DATE'{first}'").replace(":last_day", f"DATE'{last}'")


def _load(name: str) -> NamedQuery:
    words = {"in_period": OF_PERIOD}
    if name == _HOSTS:
        return NamedQuery(name, *load(views.__name__, "host_record", words))
    _, runs = load(__name__, _RUNS, words)
    return NamedQuery(name, *load(__name__, name, {**words, "runs": runs}))


QUERIES: Final[dict[str, NamedQuery]] = {name: _load(name) for name in QUERY_NAMES}
