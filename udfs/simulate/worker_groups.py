"""Groups of a unit's workers by GPU type, or by rack or switch, as its manifest states them for hosts."""

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple, cast

import numpy as np

from schemas.gpu_types import MOST_TYPES
from schemas.vocabulary import NOT_STATED
from udfs.kernel.arrays import Ints
from udfs.simulate.rank_rows import ReplayedRows

LABELS: Final = ("rack.", "switch.")
"""A label of a prefix and a host, such as {"rack.node-7": "r3"}, names the host's rack; if a host has labels
with both prefixes, the first one counts."""


class WorkerGroups(NamedTuple):
    """Groups of a unit's workers by GPU type or by rack.

    names  : names of the groups by number, ascending.
    number : int, shape (stage, dp_rank); group of each worker, or -1 if its host has none of these groups.
    """

    names: list[str]
    number: Ints

    @property
    def is_mixed(self) -> bool:
        """Whether there are two groups or more, so that groups can be compared."""
        return len(self.names) > 1


def worker_types(rows: ReplayedRows, manifest: Mapping[str, object]) -> WorkerGroups | None:
    """Return the GPU types of replayed workers by their hosts; only the MOST_TYPES most frequent types.

    manifest : with `gpu_types`, host -> type, a mapping or pairs as Arrow has them.
    returns  : None if none is stated.
    """
    given = dict(cast(Mapping[str | None, object], manifest.get("gpu_types") or {}))
    stated = {host: name for host, name in given.items() if isinstance(name, str) and name != NOT_STATED}
    workers = Counter(stated[host] for host in rows.hosts if host in stated)
    names = sorted(sorted(workers, key=lambda name: (-workers[name], name))[:MOST_TYPES])
    return _groups(names, stated, rows) if names else None


def worker_racks(rows: ReplayedRows, manifest: Mapping[str, object]) -> WorkerGroups | None:
    """Return the racks with several hosts of a unit, but not all of its workers; None without such racks.

    manifest : with `labels`, a mapping or pairs as Arrow has them.
    """
    labels = dict(cast(Mapping[str, str], manifest.get("labels") or {}))
    rack_of: dict[str | None, str] = {}
    for prefix in LABELS:
        for label, name in labels.items():
            if label.startswith(prefix):
                rack_of.setdefault(label.removeprefix(prefix), name)
    hosts_in = Counter(rack_of[host] for host in {*rows.hosts} if host in rack_of)
    racks = _groups(sorted(name for name, hosts in hosts_in.items() if hosts > 1), rack_of, rows)
    return racks if racks.names and len(np.unique(racks.number)) > 1 else None


def _groups(names: list[str], of_host: Mapping[str | None, str], rows: ReplayedRows) -> WorkerGroups:
    place = {name: number for number, name in enumerate(names)}
    number = [place.get(of_host[host], -1) if host in of_host else -1 for host in rows.hosts]
    return WorkerGroups(names, np.array(number).reshape(rows.worker_row.shape))
