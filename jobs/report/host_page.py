"""The page of one host: the losses to it, whether they may be chance, its jobs, and how to check a repair."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from jobs.report import links, loss, templates, wording
from jobs.report.links import job_page_path
from jobs.report.rows import FleetTables, Publication, Row
from schemas.causes import OF_CAUSE
from schemas.unit import Unit

MOST_HOSTS: Final = 200
"""Most hosts that have a page: first those with most losses, then those least likely slow by chance."""


def hosts_with_pages(fixes: Sequence[Row], hosts: Sequence[Row]) -> list[str]:
    """Return the hosts that get a page: the first MOST_HOSTS hosts named in `fixes`, then in `hosts`.

    fixes, hosts : rows of the tables `fixes` and `hosts` of FleetTables, in their order.
    """
    named = [row["host"] for row in (*fixes, *hosts) if row["host"] is not None]
    return [*dict.fromkeys(named)][:MOST_HOSTS]


def host_pages(tables: FleetTables, publication: Publication) -> dict[str, bytes]:
    """Render the pages of all hosts of a publication; return them by path in the publication's folder."""
    served: defaultdict[str, list[Row]] = defaultdict(list)
    for row in tables.host_units.to_pylist():
        served[row["host"]].append(row)
    measure, (totals,) = loss.measure_of(tables), tables.totals.to_pylist()
    fixes: defaultdict[str, list[Row]] = defaultdict(list)
    for row in tables.fixes.filter(tables.fixes["host"].is_valid()).to_pylist():
        lost = loss.amount(row[measure.lost], totals[measure.of], measure)
        between = loss.interval(row, "lost_fraction")
        fixes[row["host"]].append(row | {"words": OF_CAUSE[row["cause"]], "lost": lost, "between": between})
    records = {row["host"]: wording.host_record(row) for row in tables.hosts.to_pylist()}
    return {
        path: templates.page(
            "host.html",
            {
                "root": "..",
                "title": f"{host}, {publication.period}",
                "host": host,
                "publication": publication,
                "causes": fixes[host],
                "record": records.get(host),
                "served": _served(served[host], publication),
                "effect": links.effect_on_host(host, publication.day, publication.warehouse),
            },
        )
        for host, path in publication.hosts.items()
    }


def _served(units: Sequence[Row], publication: Publication) -> list[dict[str, Any]]:
    """Return the units that ran on a host, latest first, with the time that each unit lost to the host."""
    found = []
    for row in reversed(units):
        unit = Unit.of(row)
        path = publication.page_of(job_page_path(*unit))
        found.append(
            {
                "unit": unit,
                "page": f"../{path}" if path else None,
                "workers": row["workers"],
                "slows": row["slowdown"] - 1,
                "lost": loss.of_unit(row["lost_fraction"], row["lost_gpu_hours"]),
            }
        )
    return found
