"""How a share swings over the step, and whether steps start at equal intervals (udfs/README.md, "Power")."""

from functools import cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from udfs.kernel.arrays import Floats, Ints

HARMONICS: Final = 8
"""Amplitudes that are kept, from the step's own period on."""

STILL: Final = 1e-9
"""A share that swings by less is constant: what is left is rounding."""

LEAST_STEPS: Final = 4
"""A line goes through fewer by itself."""

IN_BEAT: Final = 1 / 8
"""Steps that begin so far from the beat, in periods of the dominant component, leave its phase unknown."""


class Swing(NamedTuple):
    """Fourier components of a share over the step.

    amplitudes : float64, shape (HARMONICS,); of the components with periods step, step / 2, ...
    dominant   : how many periods of the largest component a step has; 0 where nothing swings.
    amplitude  : of that component.
    peak       : its first peak, as a part of the step.
    """

    amplitudes: Floats
    dominant: int
    amplitude: float
    peak: float


class Beat(NamedTuple):
    """Regular starts of steps, fitted by least squares: interval `every_s`. [s]

    scatter_s : root mean square of the distance from that. [s]
    middle_s  : when the middle step began, by the fit. [s]
    """

    every_s: float
    scatter_s: float
    middle_s: float


def swing(share: Floats) -> Swing:
    """Fourier components of the share of workers that compute, over one step; share of shape (bin,)."""
    bins = len(share)
    components = np.fft.rfft(share)[1 : bins // 2] * _half_a_bin(bins) * 2 / bins
    amplitude = np.abs(components)
    most = int(amplitude.argmax())
    if amplitude[most] < STILL:
        return Swing(amplitude[:HARMONICS], 0, 0.0, 0.0)
    turned = float(-np.angle(components[most]) / (2 * np.pi)) % 1.0
    return Swing(amplitude[:HARMONICS], most + 1, float(amplitude[most]), turned / (most + 1))


@cache
def _half_a_bin(bins: int) -> npt.NDArray[np.complex128]:
    """Phase factors that shift each component by half a bin, to the middles of the bins."""
    turned: npt.NDArray[np.complex128] = np.exp(-1j * np.pi * np.arange(1, bins // 2) / bins)
    return turned


def beat(step: Ints, began_s: Floats) -> Beat | None:
    """Fit equally spaced starts to steps; None with too few steps, or if starts do not increase.

    step    : int, shape (step,); step numbers, ascending.
    began_s : float64, shape (step,); from any zero. [s]
    """
    if len(step) < LEAST_STEPS:
        return None
    after = step - step.mean()
    every_s = float((after * began_s).sum() / (after * after).sum())
    if not every_s > 0.0:
        return None
    scatter_s = began_s - began_s.mean() - every_s * after
    middle = (int(step[0]) + int(step[-1])) // 2
    return Beat(
        every_s,
        float(np.sqrt((scatter_s * scatter_s).mean())),
        float(began_s.mean() + every_s * (middle - step.mean())),
    )
