"""Find racks and switches of a unit's workers from the labels of its manifest."""

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple, cast

import numpy as np

from udfs.kernel.arrays import Ints
from udfs.simulate.rank_rows import ReplayedRows

LABELS: Final = ("rack.", "switch.")
"""Labels of a prefix and a host say what that host is in, as in {"rack.node-7": "r3"}; the first prefix
decides."""


class WorkerRacks(NamedTuple):
    """Racks that hold several hosts of a unit, but not all of its workers.

    names  : of the racks, by number, ascending.
    number : int, shape (stage, dp_rank); -1 where nothing states the rack of a worker's host, or it is the
             only host there.
    """

    names: list[str]
    number: Ints


def worker_racks(rows: ReplayedRows, manifest: Mapping[str, object]) -> WorkerRacks | None:
    """Racks of the replayed workers, by their hosts; None if no rack has several hosts.

    manifest : with `labels`, a mapping or pairs as Arrow has them.
    """
    labels = dict(cast(Mapping[str, str], manifest.get("labels") or {}))
    rack_of: dict[str | None, str] = {}
    for prefix in LABELS:
        for label, name in labels.items():
            if label.startswith(prefix):
                rack_of.setdefault(label.removeprefix(prefix), name)
    if not rack_of:
        return None
    hosts_in = Counter(rack_of[host] for host in {*rows.hosts} if host in rack_of)
    names = sorted(name for name, hosts in hosts_in.items() if hosts > 1)
    place = {name: number for number, name in enumerate(names)}
    number = np.array([place.get(rack_of.get(host, ""), -1) for host in rows.hosts]).reshape(
        rows.worker_row.shape
    )
    return WorkerRacks(names, number) if names and len(np.unique(number)) > 1 else None
