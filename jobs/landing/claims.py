"""Checks of what producers state: implausible claims, such as too many GPU-hours, and new owners of files."""

from collections import Counter
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from jobs.runtime.plural import plural
from schemas.unit import Unit
from schemas.vocabulary import UNIT_KEY

_MOST_HOURS: Final = 3 * 24 * 1.25
"""Most GPU-hours that one GPU may have: those of three days, because a log may reach into the day before and
the day after, and 25 % more."""
_MOST_RANKS: Final = 1_024
"""Most ranks of one worker (tp_size x cp_size) that count as GPUs, because most of them write no log."""
_MOST_NAMED: Final = 20
"""Most pairs of files that are named one by one."""


def without_refused(job: dict[str, Any]) -> dict[str, Any]:
    """Return a row of jobs; gpu_hours that its GPUs cannot have spent are moved to `refused_claims`."""
    gpu_hours, world_size = job["gpu_hours"], job["world_size"] or 0
    of_worker = (job.get("tp_size") or 1) * (job.get("cp_size") or 1)
    gpus = world_size // of_worker * min(of_worker, _MOST_RANKS)
    if gpu_hours is None or gpu_hours <= gpus * _MOST_HOURS:
        return job
    most = f"{gpus} GPUs have at most {gpus * _MOST_HOURS:,.0f} in three days and a quarter more"
    if of_worker > _MOST_RANKS:
        most += f", and no more than {_MOST_RANKS:,} ranks of a worker are believed, not {of_worker:,}"
    claim = f"gpu_hours is {gpu_hours:.6g}: {most if world_size else 'without a world_size it says nothing'}"
    return job | {"gpu_hours": None, "refused_claims": [*(job.get("refused_claims") or ()), claim]}


def contradictions(contested: Counter[tuple[str, str]]) -> list[str]:
    """Return one sentence for each pair of files that contradict each other about rank-steps.

    contested : number of contested (rank, step), by the names of both files
    """
    found = [
        f"{first} and {second} contradict each other about {plural(count, 'step')} of a rank: "
        "both are rejected"
        for (first, second), count in sorted(contested.items())
    ]
    more = len(found) - _MOST_NAMED
    return found if more <= 0 else [*found[:_MOST_NAMED], f"and {plural(more, 'more pair')} of files"]


def new_owners(before: pa.Table, now: pa.Table) -> list[str]:
    """Return one sentence for each unit whose logs changed their owner since they were last read.

    before, now : rows of source_files
    """
    earlier, later = _owners(before), _owners(now)
    return [
        f"{unit.log_date}: job {unit.job_id}, run {unit.run_id}: its logs are of user "
        f"{_listed(later[unit])}, those read before were of user {_listed(earlier[unit])}"
        for unit in sorted(earlier.keys() & later.keys())
        if earlier[unit] != later[unit]
    ]


def _owners(source_files: pa.Table) -> dict[Unit, set[int]]:
    """Return the user ids that own each unit's files, where the store reports owners."""
    found: dict[Unit, set[int]] = {}
    known = source_files.filter(pc.is_valid(source_files["owner_uid"]))
    for *unit, owner in zip(*(known[name].to_pylist() for name in (*UNIT_KEY, "owner_uid")), strict=True):
        found.setdefault(Unit(*unit), set()).add(owner)
    return found


def _listed(owners: set[int]) -> str:
    return " and ".join(map(str, sorted(owners)))
