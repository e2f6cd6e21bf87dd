"""Coordinates of a rank in its job, from the process groups in its trace, or else from the manifest."""

import re
from collections.abc import Mapping
from itertools import pairwise
from math import prod
from typing import Any, Final, NamedTuple

from jobs.landing.formats.foreign import RefusalError
from jobs.landing.formats.kineto_stream import DistributedInfo, Group
from jobs.landing.formats.strict_json import is_integer

_AXES: Final = {
    "PIPELINE_MODEL_PARALLEL_GROUP": "pp",
    "TENSOR_MODEL_PARALLEL_GROUP": "tp",
    "CONTEXT_PARALLEL_GROUP": "cp",
    "DATA_PARALLEL_GROUP": "dp",
    "mesh_pp": "pp",
    "mesh_tp": "tp",
    "mesh_cp": "cp",
    "mesh_dp": "dp",
    "mesh_fsdp": "dp",
    "mesh_dp_shard": "dp",
    "mesh_dp_replicate": "replica",
}
"""Description of a process group by Megatron, or by a DeviceMesh -> axis of the group."""

_FASTEST_FIRST: Final = ("tp", "cp", "dp", "pp")
"""Axes in the order in which Megatron, and a DeviceMesh (pp, dp, cp, tp), count ranks."""

_RANK: Final = re.compile(
    r"(?:(?<![A-Za-z])([A-Za-z]+)[-_.]?)?(?<![A-Za-z])rank[-_.]?(\d{1,9})(?!\d)", re.IGNORECASE
)
"""A rank in a file's name, and the word before "rank"."""
_PARTS: Final = ("dp", "pp", "tp", "cp", "ep", "sp", "local", "node", "group", "host")


def refusal(reason: str, instead: str) -> RefusalError:
    """Return the error for a trace that cannot be replayed: why, and what to record instead."""
    return RefusalError("torch.profiler (Kineto)", reason, instead)


class Place(NamedTuple):
    """Coordinates of a rank, and the sizes of its job."""

    rank: int
    world_size: int
    sizes: Mapping[str, int]
    coordinates: Mapping[str, int]

    def row(self) -> dict[str, int]:
        """Return the columns of rank_steps that state the rank's coordinates."""
        return {"rank": self.rank} | {f"{axis}_rank": self.coordinates[axis] for axis in _FASTEST_FIRST}

    def manifest(self) -> dict[str, int]:
        """Return the manifest fields that state the job's sizes."""
        return {"world_size": self.world_size} | {f"{axis}_size": self.sizes[axis] for axis in _FASTEST_FIRST}

    def shares_gradients(self, group: str | None, group_size: int | None) -> bool:
        """Return whether collectives of a group span all dp ranks.

        Raises RefusalError if gradients are reduced among a part of the dp ranks, or the group is unknown.
        """
        axis = _AXES.get(group or "")
        if axis in ("pp", "tp", "cp") or (group or "").upper().startswith("EXPERT"):
            return False
        if group is None and group_size is None and self.sizes["tp"] > 1:
            raise refusal(
                "collectives do not name their groups, and those of tensor parallelism look like others",
                "Record with a newer torch, which writes Process Group Description",
            )
        dp_size, cp_size = self.sizes["dp"], self.sizes["cp"]
        if group_size is None or group_size in (dp_size, dp_size * cp_size):
            return True
        if axis in ("dp", "replica") and group_size > 1:
            raise _hybrid(group_size, dp_size)
        return False


def completed(info: DistributedInfo, name: str, manifest: Mapping[str, Any]) -> DistributedInfo:
    """Complete a trace's distributed info from its file name and job.json.

    name : such as trace_rank3.json or rank3.json.gz; a rank along one axis, as in pp_rank3, is ignored
    """
    found = {int(rank) for axis, rank in _RANK.findall(name) if axis.lower() not in _PARTS}
    of_name = found.pop() if len(found) == 1 else None
    sizes = [size for axis in _FASTEST_FIRST if type(size := manifest.get(f"{axis}_size")) is int]
    world_size = manifest.get("world_size")
    if world_size is None and len(sizes) == len(_FASTEST_FIRST):
        world_size = prod(sizes)
    return DistributedInfo(
        rank=of_name if info.rank is None else info.rank,
        world_size=info.world_size or (world_size if type(world_size) is int else None),
        pg_config=info.pg_config,
    )


def place_of(info: DistributedInfo, manifest: Mapping[str, Any]) -> Place:
    """Return the coordinates of a rank. Raises RefusalError if the layout is unknown or contradictory."""
    if info.rank is None:
        raise refusal(
            "neither a trace nor its file's name states the rank, as in trace_rank3.json",
            "Start the profiler after torch.distributed.init_process_group: it then writes distributedInfo",
        )
    if info.world_size is None:
        raise refusal(
            "a trace does not state how many ranks the job has",
            "Write world_size and dp_size, pp_size, tp_size, cp_size into job.json",
        )
    if not 0 <= info.rank < info.world_size:
        raise refusal(
            f"a trace is of rank {info.rank}, beyond the {info.world_size} ranks of the job",
            "Correct world_size in job.json, or the file's name",
        )
    groups = _groups(info)
    sizes = _sizes(groups, info, info.world_size, manifest)
    coordinates, behind = {}, 1
    for axis in _FASTEST_FIRST:
        found = _position(groups[axis], info.rank) if axis in groups else None
        coordinates[axis] = info.rank // behind % sizes[axis] if found is None else found
        behind *= sizes[axis]
    return Place(info.rank, info.world_size, sizes, coordinates)


def _groups(info: DistributedInfo) -> dict[str, Group]:
    """Return the rank's process group along each axis. Raises RefusalError if replicas are sharded, too."""
    groups = {axis: group for group in info.pg_config or () if (axis := _AXES.get(group.pg_desc or ""))}
    replicas = groups.pop("replica", None)
    if replicas is not None and _size(replicas) > 1:
        shards = groups.setdefault("dp", replicas)
        if shards is not replicas and _size(shards) > 1:
            raise _hybrid(_size(shards), _size(shards) * _size(replicas))
        groups["dp"] = replicas
    return groups


def _sizes(
    groups: Mapping[str, Group], info: DistributedInfo, world_size: int, manifest: Mapping[str, Any]
) -> dict[str, int]:
    sizes = {axis: _size(group) for axis, group in groups.items()}
    for axis in _FASTEST_FIRST:
        size = manifest.get(f"{axis}_size")
        if is_integer(size, 1) and sizes.setdefault(axis, size) != size:
            raise refusal(
                f"job.json says {axis}_size {size}, the process groups of a trace {sizes[axis]}",
                "Correct job.json, or remove the sizes from it",
            )
    if not sizes and not info.pg_config:
        raise refusal(
            "the layout is unknown: the traces name no process groups",
            "Write dp_size, pp_size, tp_size and cp_size into job.json, or record with a newer torch",
        )
    others = 1
    for axis in ("tp", "cp", "pp"):
        others *= sizes.setdefault(axis, 1)
    sizes.setdefault("dp", max(world_size // others, 1))
    if others * sizes["dp"] != world_size:
        raise refusal(
            f"sizes {sizes} do not make up the {world_size} ranks of the job",
            "Write dp_size, pp_size, tp_size and cp_size into job.json",
        )
    return sizes


def _size(group: Group) -> int:
    return group.pg_size or max(len(ranks_of(group)), 1)


def ranks_of(group: Group) -> list[int]:
    """Return the ranks of a group that the trace lists, as a list or as text; the list may be truncated."""
    if isinstance(group.ranks, str):
        return [int(number) for number in re.findall(r"\d+", group.ranks)]
    return [rank for rank in group.ranks or () if isinstance(rank, int)]


def _position(group: Group, rank: int) -> int | None:
    """Return a rank's position in its group; if the list is truncated, computed from the list's spacing."""
    ranks = ranks_of(group)
    if rank in ranks:
        return ranks.index(rank)
    distances = {after - before for before, after in pairwise(ranks)}
    if len(distances) != 1:
        return None
    position, rest = divmod(rank - ranks[0], distances.pop() or 1)
    return position if not rest and 0 <= position < _size(group) else None


def _hybrid(size: int, ranks: int) -> RefusalError:
    return refusal(
        f"gradients are reduced in groups of {size} of {ranks} ranks (hybrid sharding), which the model of a "
        "step cannot represent",
        "Record a job that shards over all data-parallel ranks",
    )
