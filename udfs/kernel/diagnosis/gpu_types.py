"""Estimate how slow each GPU type of a job is relative to the job's fastest type.

Stages do different work, so two types are compared by workers of the same stage, or through a third type that
shares a stage with each. Axes p, k, c, m, s, d, t: stage, direction, chunk, microbatch, step, dp rank, type.
"""

from typing import Final

import numpy as np

from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.cause import TypeFactors
from udfs.kernel.diagnosis.hosts import UNKNOWN, over_others
from udfs.kernel.diagnosis.levels import MAD_TO_SIGMA, SIGMAS_BETWEEN, USUAL_STEPS
from udfs.kernel.diagnosis.variation import MEDIAN_ERROR
from udfs.kernel.selection import ascending, deviation_of_all, medians_along, quantile

LEAST_TYPE: Final = 0.03
"""Least log factor by which a slow type exceeds the fastest."""

ERRORS: Final = 3.5
"""Least log factor of a slow type, in standard errors."""


def type_factors(usual_s: Floats, worker_type: Ints) -> TypeFactors:
    """Estimate the factors by which GPU types are slower than the fastest, from typical compute times.

    usual_s     : median over microbatches of compute times, positive, shape (p, k, c, s, d). [s]
    worker_type : int, shape (p, d); number of the worker's type from 0 on, UNKNOWN if not known.
    """
    logs = np.log(usual_s)
    by_step = ascending(logs.mean(axis=2), 2)
    cell = quantile(by_step, USUAL_STEPS)
    workers = np.bincount(worker_type[worker_type != UNKNOWN])
    first = int(workers.argmax())
    measured = _joined(cell, worker_type, len(workers), first)
    measured -= measured[int(np.nanargmin(measured.mean(axis=1)))]
    # Log times without the type's factor and the stage's median, where both are known.
    known = np.where((worker_type != UNKNOWN)[..., None], measured[worker_type], np.nan)
    left = (cell - known.swapaxes(1, 2)).mean(axis=1)
    left = left[~np.isnan(left).all(axis=1)]
    left -= np.nanmedian(left, axis=1, keepdims=True)
    own = (quantile(by_step, 0.85) - quantile(by_step, 0.15)).mean(axis=1) / SIGMAS_BETWEEN
    scatter = np.hypot(
        MAD_TO_SIGMA * deviation_of_all(left[~np.isnan(left)]),
        float(medians_along(own.reshape(-1), 0)) / np.sqrt(by_step.shape[3]),
    )
    is_confounded = bool(np.isnan(measured).any())
    if is_confounded:
        usual = medians_along(quantile(ascending(logs, 3), USUAL_STEPS), 3, low=True)
        measured = _by_stages(usual, measured, worker_type, first)
    # Workers of one dp rank have the same data, so only dp ranks count as independent samples.
    dp_ranks = np.array([(worker_type == number).any(axis=0).sum() for number in range(len(workers))])
    fastest = int(np.nanargmin(measured.mean(axis=1)))
    error = MEDIAN_ERROR * scatter * np.sqrt(1.0 / dp_ranks + 1.0 / dp_ranks[fastest])
    is_slower = measured.mean(axis=1) > np.maximum(LEAST_TYPE, ERRORS * error)  # False for nan
    log_factor = np.where(is_slower[:, None], measured, 0.0)
    of_workers = np.where((worker_type != UNKNOWN)[..., None], log_factor[worker_type], 0.0)
    of_workers = np.exp(of_workers).swapaxes(1, 2)[:, :, None, None, None]
    return TypeFactors(measured, error, is_slower, of_workers, worker_type, is_confounded)


def _by_stages(usual: Floats, measured: Floats, worker_type: Ints, first: int) -> Floats:
    """Return `measured`; nan of types that have whole stages is replaced by how slow these stages are.

    A factor is filled in only if the excess is larger than a difference of work would explain.

    usual    : log time of a usual worker of each stage, shape (p, k, c).
    measured : log factors, shape (t, k); nan for types that share no stage.
    first    : type that the others were compared with.
    """
    found, types = measured.copy(), len(measured)
    is_joined = ~np.isnan(measured[:, 0])
    slower = []
    for number in range(types):
        whole = (worker_type == number).all(axis=1)
        is_alone = not is_joined[number] or (number == first and is_joined.sum() == 1)
        if is_alone and whole.any() and not whole.all() and not (worker_type[~whole] == number).any():
            over = over_others(usual, whole, by_direction=True)
            if over.is_likely:
                found[number] = over.of_directions
                slower.append(number)
    if types == 2 and len(slower) == 1:
        found[1 - slower[0]] = 0.0
    return found


def _joined(cell: Floats, worker_type: Ints, types: int, first: int) -> Floats:
    """Return the log factors of types relative to the most common type, `first`.

    cell    : usual log time of each worker, shape (p, k, d).
    types   : number of types.
    returns : shape (t, k); nan if no chain of shared stages connects a type with `first`.
    """
    stages, directions, _ = cell.shape
    # The lower median over the workers of each type and stage, nan without any.
    level = np.full((types, stages, directions), np.nan)
    for number in range(types):
        for stage in np.flatnonzero((worker_type == number).any(axis=1)).tolist():
            level[number, stage] = medians_along(cell[stage][:, worker_type[stage] == number], 1, low=True)
    found = np.full((types, directions), np.nan)
    found[first] = 0.0
    while True:
        base = level - found[:, None]  # work of each stage, by types with a known factor
        there = np.flatnonzero(~np.isnan(base).all(axis=(0, 2)))
        usual = np.nanmedian(base[:, there], axis=0)
        over = level[:, there] - usual
        new = np.isnan(found[:, 0]) & ~np.isnan(over).all(axis=(1, 2))
        if not new.any():
            return found
        for number in np.flatnonzero(new).tolist():
            shared = over[number][~np.isnan(over[number]).any(axis=1)]
            found[number] = medians_along(shared, 0, low=True)
