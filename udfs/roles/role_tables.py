"""Compute role_iteration and role_effect from the rows of role_step of some days."""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import pairwise
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.role_tables import LEAST_ITERATIONS, MOST_ITERATIONS, MOST_ROLES
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import ROLE_EFFECT, ROLE_ITERATION
from udfs.intervals import or_null
from udfs.kernel.arrays import Floats
from udfs.roles.whole import Waits, Whole, chain_of, longest_path, replayed_s, waits_of

Row = dict[str, Any]
Group = TypeVar("Group", bound=Hashable)

_US: Final = 1e-6


def role_tables(role_steps: pa.Table, runs: pa.Table) -> dict[str, pa.Table]:
    """Compute the role tables of all groups of runs on some days.

    role_steps : rows of role_step of these days
    runs       : the days' units with part_of: columns log_date, job_id, run_id, part_of, role, gpu_hours, and
                 lost_fraction, which is summed over the unit's causes, or null if it was not analysed
    """
    found: dict[str, list[Row]] = {ROLE_ITERATION: [], ROLE_EFFECT: []}
    steps = dict(_by_whole(role_steps))
    for key, of_whole in _by_whole(runs):
        whole: Row = {"log_date": key[0], "part_of": key[1]}
        units, recorded = of_whole.to_pylist(), steps[key].to_pylist() if key in steps else []
        role_of = {Unit.of(unit): unit["role"] for unit in units if unit["role"] is not None}
        known = [step for step in recorded if role_of.get(Unit.of(step)) == step["role"]]
        effects = _counted(role_of, known)
        iterations = len({step["iteration"] for step in known})
        if LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS and len(effects) <= MOST_ROLES:
            of_iterations, answers = _answered(
                known, {Unit.of(unit): unit["lost_fraction"] for unit in units}
            )
            found[ROLE_ITERATION] += [whole | row for row in of_iterations]
            effects = {role: row | answers.get(role, {}) for role, row in effects.items()}
        hours = [unit["gpu_hours"] for unit in units if unit["gpu_hours"] is not None]
        gpu_hours = sum(hours) if hours else None
        for effect in effects.values():
            row = whole | effect | {"gpu_hours": gpu_hours}
            for name in ("if_fixed", "if_ideal", "if_twice_as_fast"):
                fraction = row.get(f"saved_fraction_{name}")
                saved = None if gpu_hours is None or fraction is None else gpu_hours * fraction
                row[f"saved_gpu_hours_{name}"] = saved
            found[ROLE_EFFECT].append(row)
    return {name: pa.Table.from_pylist(rows, TABLES[name].arrow_schema) for name, rows in found.items()}


def _by_whole(table: pa.Table) -> Iterator[tuple[tuple[date, str], pa.Table]]:
    """Yield the rows of each group of runs, one group at a time, because rows are large as Python objects."""
    names = ("log_date", "part_of")
    ordered = table.take(pc.sort_indices(table, [(name, "ascending") for name in names]))
    if not ordered.num_rows:
        return
    codes = [ordered[name].combine_chunks().dictionary_encode().indices.to_numpy() for name in names]
    first = np.flatnonzero(np.diff(codes, prepend=-1).any(axis=0)).tolist()
    for begin, end in pairwise([*first, ordered.num_rows]):
        some = ordered.slice(begin, end - begin)
        yield (some["log_date"][0].as_py(), some["part_of"][0].as_py()), some


def _grouped(rows: Iterable[Row], key: Callable[[Row], Group]) -> dict[Group, list[Row]]:
    found: dict[Group, list[Row]] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return found


def _counted(role_of: dict[Unit, str], steps: Sequence[Row]) -> dict[str, Row]:
    """Return by role the number of its runs, of runs without steps, and of iterations.

    steps : rows of role_step whose role is that of their run
    """
    with_steps = {Unit.of(step) for step in steps}
    runs = Counter(role_of.values())
    left_out = Counter(role for unit, role in role_of.items() if unit not in with_steps)
    iterations = Counter(role for role, _ in {(step["role"], step["iteration"]) for step in steps})
    return {
        role: {
            "role": role,
            "runs": runs[role],
            "runs_left_out": left_out[role],
            "iterations": iterations[role],
        }
        for role in sorted(runs)
    }


def _answered(steps: Sequence[Row], lost: Mapping[Unit, float | None]) -> tuple[list[Row], dict[str, Row]]:
    """Return the rows of role_iteration, and by role the figures of role_effect, both without their key.

    lost : lost_fraction of each unit
    """
    roles = sorted({step["role"] for step in steps})
    first_us = min(step["start_us"] for step in steps)
    whole = whole_of(steps, roles, first_us, lost)
    waits = waits_of(whole)
    chain = chain_of(whole, waits)
    whole_s = replayed_s(whole, chain, whole.lengths_s())
    if not whole_s > 0.0:
        return [], {}
    is_on_path, before_s = longest_path(whole, chain)
    waited_for_s = np.where(is_on_path, whole.end_s - whole.start_s, 0.0)
    most = np.arange(len(roles))[:, None] == waited_for_s.argmax(axis=0)
    is_waited_for = most & (waited_for_s > 0.0)
    figures = {"busy_s": whole.busy_s, "waiting_s": _waiting_s(whole), "waited_for_s": waited_for_s}
    rows = [
        {
            "role": roles[role],
            "iteration": int(whole.number[iteration]),
            "runs": int(whole.runs[role, iteration]),
            "start_us": first_us + round(whole.start_s[role, iteration] / _US),
            "end_us": first_us + round(whole.end_s[role, iteration] / _US),
            **{name: or_null(values[role, iteration]) for name, values in figures.items()},
            "transition_s": or_null(chain.gap_s[role, iteration]),
            "is_waited_for": bool(is_waited_for[role, iteration]),
        }
        for role, iteration in chain.spans.tolist()
    ]

    def saved(role: int, factor: Floats | float) -> float:
        return 1.0 - replayed_s(whole, chain, whole.lengths_s(role, factor)) / whole_s

    answers: dict[str, Row] = {
        name: {
            **{each: float(np.nansum(values[role])) for each, values in figures.items()},
            **_names_of(waits.reduced(), role, roles),
            "transition_s": float(before_s[role].sum()),
            "iterations_waited_for": int(is_waited_for[role].sum()),
            "whole_s": whole_s,
            "saved_fraction_if_fixed": or_null(saved(role, whole.fixed)),
            "saved_fraction_if_ideal": saved(role, whole.ideal),
            "saved_fraction_if_twice_as_fast": saved(role, 0.5),
        }
        for role, name in enumerate(roles)
    }
    return rows, answers


def whole_of(
    steps: Sequence[Row], roles: Sequence[str], first_us: int, lost: Mapping[Unit, float | None]
) -> Whole:
    """Build the recorded iterations of a group of runs from role_step; times count from first_us.

    lost : lost_fraction of each unit
    """
    parts = _grouped(steps, lambda step: (step["role"], step["iteration"], Unit.of(step)))
    number, iteration = np.unique([key[1] for key in parts], return_inverse=True)
    role = np.array([roles.index(key[0]) for key in parts])
    start_s, end_s, busy_s, ideal = np.array([_part(some, first_us) for some in parts.values()]).T
    shape = (len(roles), len(number))
    starts_s, ends_s = np.full(shape, np.inf), np.full(shape, -np.inf)
    np.minimum.at(starts_s, (role, iteration), start_s)
    np.maximum.at(ends_s, (role, iteration), end_s)
    runs = np.zeros(shape, dtype=np.int64)
    np.add.at(runs, (role, iteration), 1)
    is_there = runs > 0
    busy_together_s = np.full(shape, np.nan)
    for (name, at), some in _grouped(steps, lambda step: (step["role"], step["iteration"])).items():
        busy_together_s[roles.index(name), number.searchsorted(at)] = _joined_s(some, first_us)
    return Whole(
        number=number,
        start_s=np.where(is_there, starts_s, np.nan),
        end_s=np.where(is_there, ends_s, np.nan),
        busy_s=busy_together_s,
        runs=runs,
        role=role,
        iteration=iteration,
        offset_s=start_s - starts_s[role, iteration],
        run_s=end_s - start_s,
        run_busy_s=busy_s,
        ideal=ideal,
        fixed=1.0 - np.array([lost[key[2]] for key in parts], dtype=np.float64),  # None becomes nan
    )


def _part(steps: Sequence[Row], first_us: int) -> tuple[float, float, float, float]:
    """Return a run's first start, last end and busy time in an iteration [s], and ideal over actual time."""
    start_us, end_us = min(step["start_us"] for step in steps), max(step["end_us"] for step in steps)
    actual_s = sum(step["actual_step_s"] for step in steps)
    ideal = sum(step["ideal_step_s"] for step in steps) / actual_s if actual_s else 1.0  # nothing to save
    return (start_us - first_us) * _US, (end_us - first_us) * _US, _joined_s(steps, first_us), ideal


def _joined_s(steps: Sequence[Row], first_us: int) -> float:
    """Return the time in which at least one of the steps runs. [s]"""
    times_s = (np.array(sorted((step["start_us"], step["end_us"]) for step in steps)) - first_us) * _US
    reached_s = np.maximum.accumulate(np.concatenate([[-np.inf], times_s[:-1, 1]]))
    return float(np.maximum(times_s[:, 1] - np.maximum(times_s[:, 0], reached_s), 0.0).sum())


def _waiting_s(whole: Whole) -> Floats:
    """Compute each role's wait from its last end to its next start, nan if unknown; (role, iteration). [s]"""
    waiting_s = np.full(whole.start_s.shape, np.nan)
    now = np.flatnonzero(whole.follows)
    waiting_s[:, now] = np.maximum(whole.start_s[:, now] - whole.end_s[:, now - 1], 0.0)
    return waiting_s


def _names_of(waits: Waits, role: int, roles: Sequence[str]) -> dict[str, list[str]]:
    """Return the names of the roles that a role waits for, in the same iteration and in the one before."""
    both = {"waits_for": waits.within, "waits_for_before": waits.before}
    return {
        name: [roles[other] for other in np.flatnonzero(are[:, role]).tolist()] for name, are in both.items()
    }
