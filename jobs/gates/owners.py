"""Find units whose log files have changed their owner since the day's previous ingest."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Final

from jobs.landing.claims import new_owners
from jobs.warehouse.latest import Published
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.vocabulary import PUBLICATIONS, SOURCE_FILES, Phase

_KEPT: Final = timedelta(days=6)
"""Age up to which an ingest is compared with the one before, whose files vacuum deletes after a week."""


def owner_changes(warehouse: Warehouse, log_dates: Sequence[date]) -> dict[date, list[str]]:
    """Return, by day, one sentence for each unit whose logs had another owner before the last ingest."""
    ingested, files = warehouse.ingested, TABLES[SOURCE_FILES]
    rows = ingested.rows(TABLES[PUBLICATIONS]).sort_by("publication").to_pylist(maps_as_pydicts="strict")
    since = datetime.now(UTC) - _KEPT
    last: dict[date, int] = {}  # place of the publication right before each day's latest ingest
    for place, row in enumerate(rows[1:]):
        if row["phase"] == Phase.INGEST and row["published_at"] > since:
            last |= dict.fromkeys(row["log_dates"], place)
    days_of: defaultdict[int, list[date]] = defaultdict(list)
    for day in log_dates:
        if day in last:
            days_of[last[day]].append(day)
    found: dict[date, list[str]] = {}
    for place, days in days_of.items():
        earlier = Published(rows[place]["publication"], rows[place]["versions"])
        before = ingested.as_of(earlier).rows(files, days)
        if before.num_rows:
            for day in days:
                found[day] = new_owners(before, warehouse.rows(files, [day]))
    return found
