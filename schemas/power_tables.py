"""Power swings from computing and waiting: of each unit, of a day, and of units that swing in phase."""

from functools import partial
from typing import Final

import pyarrow as pa

from schemas import columns as col
from schemas.table import Column, Expectation, Table
from schemas.vocabulary import UNIT_KEY

_share = partial(col.fraction, minimum=0, maximum=1)
_instant = partial(Column, type=pa.int64(), unit="us", nullable=True)
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
            "dominant_period_s",
            "period of the dominant component, actual_step_s / dominant_harmonic; null without one",
            nullable=True,
        ),
        col.fraction(
            "dominant_amplitude",
            "amplitude of the dominant component, half of its swing; null without one",
            nullable=True,
            minimum=0,
        ),
        Column(
            "harmonic_amplitudes",
            "amplitudes of the components with 1, 2, ... 8 periods in a step",
            pa.list_(pa.float32()),
            unit="fraction",
            minimum=0,
        ),
        _instant("first_us", "start of the first recorded step, Unix time; null without times of day"),
        _instant("last_us", "end of the last recorded step, Unix time; null without times of day"),
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
        _instant(
            "peak_us",
            "a peak of the dominant component, in the middle of the recorded steps, Unix time; null where "
            "beat_scatter is null or above 1/8",
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
            "peak_us IS NULL OR (beat_scatter IS NOT NULL AND step_every_s IS NOT NULL)",
            "the time of a peak exists only where steps have a beat",
        ),
    ),
)

_megawatts = partial(Column, type=pa.float64(), unit="MW", minimum=0, nullable=True)
_watts = partial(Column, type=pa.float64(), unit="W", minimum=0, nullable=True)
_gpus = partial(Column, type=pa.float64(), unit="GPU", minimum=0)

JOB_MEGAWATTS: Final = Table(
    "job_megawatts",
    "One row per unit of job_power: its power, by the watts of its gpu_type in the settings ([power]). "
    "world_size x (otherwise_w + share x (computing_w - otherwise_w)) / 1e6: of GPUs alone, without hosts, "
    "network and cooling. Null where the settings have no watts of the type.",
    grain=UNIT_KEY,
    columns=(
        *col.UNIT,
        col.text(
            "gpu_type",
            "of all its GPUs, from the manifest; null if it states none, or several",
            nullable=True,
        ),
        col.size("world_size", "GPUs of the run, from the manifest", minimum=1),
        Column(
            "hours",
            "how long it ran on its log date: gpu_hours / world_size, else from started_at to ended_at, in "
            "UTC; null: the manifest does not say",
            pa.float64(),
            unit="h",
            nullable=True,
            minimum=0,
            maximum=24,
        ),
        _watts("computing_w", "of one GPU while it computes; null: not in the settings"),
        _watts("otherwise_w", "of one GPU while it does not compute; null: not in the settings"),
        _megawatts("mean_mw", "power of all GPUs at mean_share; null without computing_w"),
        _megawatts("low_mw", "power of all GPUs at low_share; null without computing_w"),
        _megawatts("high_mw", "power of all GPUs at high_share; null without computing_w"),
        _megawatts("swing_mw", "high_mw - low_mw; null without computing_w"),
        Column(
            "energy_mwh",
            "mean_mw x hours; null without either",
            pa.float64(),
            unit="MWh",
            nullable=True,
            minimum=0,
        ),
    ),
    expectations=(
        Expectation(
            "watts_make_megawatts",
            "(computing_w IS NULL) = (mean_mw IS NULL) AND (computing_w IS NULL) = (swing_mw IS NULL)"
            " AND (energy_mwh IS NULL) = (mean_mw IS NULL OR hours IS NULL)",
            "megawatts exist exactly where the settings have watts, energy also needs hours",
        ),
    ),
)

POWER_DAY: Final = Table(
    "power_day",
    "One row per log date with a unit in job_power: the fleet at a random moment of the day, each unit "
    "running for hours / 24 of it, whenever that was. swing_* if all peaked together, independent_swing_* if "
    "each peaked at any time: the root of the sum of the squares. Of units that say how long they ran "
    "(timed_jobs); megawatts of those whose GPUs have watts in the settings (powered_jobs); null: none.",
    grain=("log_date",),
    columns=(
        col.LOG_DATE,
        col.count("jobs", "units in job_power"),
        col.count("timed_jobs", "of these, units that say how long they ran"),
        col.count("powered_jobs", "of these, units with megawatts"),
        col.count("in_phase_pairs", "pairs of units that swing in phase; power_in_phase has the largest"),
        _gpus("gpus", "GPUs in use"),
        _gpus("computing_gpus", "of these, GPUs that compute"),
        _gpus("swing_gpus", "by how many that swings if all units peak together"),
        _gpus("independent_swing_gpus", "the same if each peaks at any time"),
        _megawatts("mean_mw", "sum of the units' mean_mw"),
        _megawatts("low_mw", "sum of their low_mw: all at their least together"),
        _megawatts("high_mw", "sum of their high_mw: all at their most together"),
        _megawatts("swing_mw", "sum of their swing_mw"),
        _megawatts("independent_swing_mw", "root of the sum of the squares of their swing_mw"),
        Column("energy_mwh", "sum of the units' energy", pa.float64(), unit="MWh", nullable=True, minimum=0),
    ),
    expectations=(
        Expectation(
            "counts_are_nested",
            "jobs >= 1 AND timed_jobs <= jobs AND powered_jobs <= timed_jobs",
            "powered_jobs <= timed_jobs <= jobs",
        ),
        Expectation(
            "megawatts_with_watts",
            "(powered_jobs > 0) = (mean_mw IS NOT NULL AND swing_mw IS NOT NULL AND energy_mwh IS NOT NULL)",
            "megawatts exist exactly if a unit has them",
        ),
    ),
)

POWER_IN_PHASE: Final = Table(
    "power_in_phase",
    "One row per pair of units of a log date that swing in phase: in the time in which both were recorded, "
    "ten periods at least, their dominant components drift by no more than 1/4 period, and in its middle "
    "their peaks are no more than 1/8 apart. Units without a known phase (job_power.peak_us) are in no pair. "
    "Of very many pairs a day keeps the 1,000 that swing most.",
    grain=("log_date", "job_id", "run_id", "other_job_id", "other_run_id"),
    columns=(
        *col.UNIT,
        col.text("other_job_id", "job of the other unit"),
        col.text("other_run_id", "run of the other unit"),
        col.seconds("period_s", "step_every_s / dominant_harmonic of the unit"),
        col.seconds("other_period_s", "the same of the other unit"),
        col.seconds("common_s", "time in which both were recorded", minimum=0),
        col.fraction(
            "drift", "periods by which one unit gains on the other in that time", minimum=0, maximum=0.25
        ),
        col.fraction(
            "phase_difference",
            "how much later the other peaks in its middle, in periods",
            minimum=-0.125,
            maximum=0.125,
        ),
        _gpus("swing_gpus", "by how many GPUs their dominant components swing together"),
        _megawatts("swing_mw", "the same in megawatts; null if the settings have no watts of a type"),
    ),
)
