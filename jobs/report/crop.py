"""Part of a timeline for a page: ops of a slow worker and of a peer, in a slow and in a usual step.

It needs four rows of rank_steps per unit, and lets readers of a page check a cause without another tool.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from jobs.report.culprit_words import is_worker, members
from jobs.report.rows import Row, UnitTables
from jobs.report.wording import seconds
from jobs.warehouse.reader import on_days, on_units
from schemas.unit import Unit
from schemas.vocabulary import CAUSE_UNEXPLAINED, OP_TYPES, RANK_STEPS, UNIT_KEY

_MOST_OPS: Final = 60
"""Most ops that are drawn of the culprit's slow step; the other lanes show an equal length of time."""
_WIDTH: Final = 1000.0
_KINDS: Final = {"forward-compute": "forward", "backward-compute": "backward", "data-load": "load"}
"""Class in report.css, and so the colour, of op types other than transfers."""
_WAITS: Final = ("send", "recv")
"""Suffixes of the op types that are transfers; their times include waits for the other end."""


class Crop(NamedTuple):
    """What to draw: two workers, as rows of worker_slowdown, in two steps, and transfers if they are slow."""

    culprit: Row
    peer: Row
    slow_step: int
    usual_step: int
    has_transfers: bool


def crop_of(tables: UnitTables) -> Crop | None:
    """Choose a culprit of the costliest cause, its fastest peer, and the culprit's slowest and fastest steps.

    A peer is a worker of the culprit's stage that is no culprit, or of another stage if there is none.

    Returns None if no cause names a worker that has a peer, or if no slowdowns by worker and step are stored.
    """
    named = [row for row in tables.causes if row["is_cause"] and row["cause"] != CAUSE_UNEXPLAINED]
    for row in sorted(named, key=lambda each: -each["time_saved_fraction"]):
        places = [
            (each["dp_rank"], each["pp_rank"])
            for culprit in row["culprits"]
            for each in ((culprit,) if is_worker(culprit) else members(culprit) or _of_stage(culprit, tables))
        ]
        workers = {(each["dp_rank"], each["pp_rank"]): each for each in tables.workers}
        culprit = next((workers[place] for place in places if place in workers), None)
        if culprit is None or not culprit["step_slowdowns"]:
            continue
        others = [each for place, each in workers.items() if place not in places]
        peers = [each for each in others if each["pp_rank"] == culprit["pp_rank"]] or others
        by_step = dict(zip((each["step"] for each in tables.steps), culprit["step_slowdowns"], strict=True))
        if peers and len(by_step) > 1:
            peer = min(peers, key=lambda each: (each["slowdown"], each["rank"]))
            slow, usual = (choose(by_step, key=lambda step: (by_step[step], -step)) for choose in (max, min))
            return Crop(culprit, peer, slow, usual, has_transfers=row["cause"] == "communication")
    return None


def _of_stage(culprit: Row, tables: UnitTables) -> list[Row]:
    """Return the workers of a culprit that is a stage or replica, as rows of worker_slowdown."""
    names = [name for name in ("dp_rank", "pp_rank") if culprit[name] is not None]
    return [each for each in tables.workers if names and all(each[name] == culprit[name] for name in names)]


def crop_question(crops: Mapping[Unit, Crop]) -> str:
    """Return SQL that reads the recorded rows of these crops, of which there must be at least one."""
    days = on_days([unit.log_date for unit in crops])
    units = " OR ".join(
        f"({on_units([unit.log_date], [unit])} AND rank IN ({crop.culprit['rank']}, {crop.peer['rank']}) "
        f"AND step IN ({crop.slow_step}, {crop.usual_step}))"
        for unit, crop in crops.items()
    )
    columns = ", ".join((*UNIT_KEY, "rank", "step", "op", "start_us", "duration_us"))
    return f"SELECT {columns} FROM {RANK_STEPS} WHERE {days} AND ({units})"


def crop_picture(tables: UnitTables) -> dict[str, Any] | None:
    """Return lanes of ops and captions for the page; None if the ops are no longer stored."""
    crop = crop_of(tables)
    lines = {(row["rank"], row["step"]): row for row in tables.crop}
    if crop is None or (crop.culprit["rank"], crop.slow_step) not in lines:
        return None
    first = _ops(lines[crop.culprit["rank"], crop.slow_step], crop)
    end_us = max(start + length for _, start, length in first[:_MOST_OPS])
    lanes = [
        {
            "title": f"step {step}, {_name(worker)}",
            "is_culprit": worker is crop.culprit,
            "ops": _drawn(_ops(lines[worker["rank"], step], crop), end_us),
        }
        for step in (crop.slow_step, crop.usual_step)
        for worker in (crop.culprit, crop.peer)
        if (worker["rank"], step) in lines
    ]
    return {
        "lanes": lanes,
        "says": (
            f"{_name(crop.culprit)} beside {_name(crop.peer)}, as recorded in the steps in which the former "
            f"is slowest and least slow; each lane shows {seconds(end_us / 1e6)} from its first op on."
        ),
        "has_transfers": crop.has_transfers,
    }


def _name(worker: Row) -> str:
    place = f"stage {worker['pp_rank']}, dp rank {worker['dp_rank']}"
    return place if worker["host"] is None else f"{worker['host']} ({place})"


def _ops(line: Row, crop: Crop) -> list[tuple[str, float, float]]:
    """Return type, start and length of ops, sorted by start; starts count from the first op of the line. [us]

    Transfers are left out unless the crop shows them.
    """
    begin = min(line["start_us"], default=0.0)
    found = [
        (OP_TYPES[code], start - begin, length)
        for code, start, length in zip(line["op"], line["start_us"], line["duration_us"], strict=True)
        if length > 0 and (crop.has_transfers or not OP_TYPES[code].endswith(_WAITS))
    ]
    return sorted(found, key=lambda op: op[1])


def _drawn(ops: Sequence[tuple[str, float, float]], end_us: float) -> list[dict[str, Any]]:
    return [
        {
            "kind": kind_of(name),
            "x": round(_WIDTH * start / end_us, 1),
            "width": round(max(_WIDTH * (min(start + length, end_us) - start) / end_us, 0.5), 1),
            "text": f"{name}, {seconds(length / 1e6)}",
        }
        for name, start, length in ops
        if start < end_us
    ]


def kind_of(name: str) -> str:
    """Return the class in report.css with which ops of a type are drawn."""
    return _KINDS.get(name, "transfer" if name.endswith(_WAITS) else "other")
