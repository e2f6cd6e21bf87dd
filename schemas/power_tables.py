"""What the swing of computing and waiting means for power: of each unit, of a day, and of units in phase."""

from functools import partial
from typing import Final

import pyarrow as pa

from schemas import columns as col
from schemas.table import Column, Expectation, Table
from schemas.vocabulary import UNIT_KEY

_share = partial(col.fraction, minimum=0, maximum=1)
_shares = partial(Column, type=pa.list_(pa.float32()), unit="fraction", minimum=0, maximum=1)

JOB_POWER: Final = Table(
    "job_power",
    "One row per replayed unit: the share of its workers that compute (forward, backward, optimizer) at each "
    "phase of the step, over the recorded steps, each stretched to its own length. The replayed rank stands "
    "for all ranks of its worker. Watts are in job_megawatts.",
    grain=UNIT_KEY,
    columns=(
        *col.UNIT,
        col.seconds("actual_step_s", "recorded step time, mean over the replayed steps (T_actual)"),
        _shares(
            "computing_share", "share of workers that compute in each 128th of the step, mean over steps"
        ),
        _shares("computing_share_low", "the same, the least of any step"),
        _shares("computing_share_high", "the same, the greatest of any step"),
        _share("mean_share", "mean of computing_share"),
        _share("low_share", "least of computing_share"),
        _share("high_share", "greatest of computing_share"),
        _share("swing_share", "high_share - low_share: what the mean step swings by"),
        _share("step_swing_share", "what a single step swings by, mean over steps"),
        col.count(
            "dominant_harmonic",
            "periods in a step of the largest Fourier component of computing_share; null: it is constant",
            nullable=True,
        ),
        col.seconds(
            "dominant_period_s", "its period, actual_step_s / dominant_harmonic; null likewise", nullable=True
        ),
        col.fraction(
            "dominant_amplitude", "its amplitude, half of its swing; null likewise", nullable=True, minimum=0
        ),
        Column(
            "harmonic_amplitudes",
            "amplitudes of the components with 1, 2, ... 8 periods in a step",
            pa.list_(pa.float32()),
            unit="fraction",
            minimum=0,
        ),
        col.instant("first_at", "start of the first recorded step; null without times of day", nullable=True),
        col.instant("last_at", "end of the last recorded step; null likewise", nullable=True),
        col.seconds(
            "step_every_s",
            "time from one step to the next, fitted to their beginnings by step number; null without times "
            "of day, and of fewer than 4 steps",
            nullable=True,
        ),
        col.fraction(
            "beat_scatter",
            "how far steps begin from that beat, root mean square, in periods of the dominant component",
            nullable=True,
            minimum=0,
        ),
        col.instant(
            "peak_at",
            "a peak of the dominant component, in the middle of the recorded steps; null where beat_scatter "
            "is null or above 1/8",
            nullable=True,
        ),
    ),
    alike=("computing_share", "computing_share_low", "computing_share_high"),
    expectations=(
        col.same(
            "swing_of_shares", "swing_share", "high_share - low_share", col.SAME_FORMULA, "swing = high - low"
        ),
        Expectation(
            "dominant_component_is_whole",
            "(dominant_harmonic IS NULL) = (dominant_period_s IS NULL)"
            " AND (dominant_harmonic IS NULL) = (dominant_amplitude IS NULL)",
            "harmonic, period and amplitude of the dominant component exist together",
        ),
        Expectation(
            "a_peak_has_a_beat",
            "peak_at IS NULL OR (beat_scatter IS NOT NULL AND step_every_s IS NOT NULL)",
            "the time of a peak exists only where steps have a beat",
        ),
    ),
)
