"""Tables of how power swings as workers compute and wait: by unit, by day, and for units in phase."""

from typing import Final

from schemas import columns as col
from schemas.table import Table
from schemas.vocabulary import UNIT_KEY

JOB_POWER: Final = Table(
    "job_power",
    "One row per replayed unit: the share of its workers that compute (forward, backward, optimizer) at each "
    "phase of the step, over the recorded steps, each stretched to its own length. The replayed rank stands "
    "for all ranks of its worker. Watts are in job_megawatts.",
    grain=UNIT_KEY,
    columns=col.declared("""
        log_date, job_id, run_id
        actual_step_s (seconds): recorded step time, mean over the replayed steps (T_actual)
        computing_share (real32[] [fraction] >= 0 <= 1): share of workers that compute in each 128th of the
            step, mean over steps
        computing_share_low (real32[] [fraction] >= 0 <= 1): smallest share of any step in each 128th of the
            step
        computing_share_high (real32[] [fraction] >= 0 <= 1): largest share of any step in each 128th of the
            step
        mean_share (fraction >= 0 <= 1): mean of computing_share
        low_share (fraction >= 0 <= 1): smallest value of computing_share
        high_share (fraction >= 0 <= 1): largest value of computing_share
        swing_share (fraction >= 0 <= 1): high_share - low_share: swing of the mean step
        step_swing_share (fraction >= 0 <= 1): swing of a single step, mean over steps
        dominant_harmonic (count?): periods in a step of the largest Fourier component of computing_share;
            null: it is constant
        dominant_period_s (seconds?): period of the dominant component, actual_step_s / dominant_harmonic;
            null without one
        dominant_amplitude (fraction? >= 0): amplitude of the dominant component, half of its swing; null
            without one
        harmonic_amplitudes (real32[] [fraction] >= 0): amplitudes of the components with 1, 2, ... 8 periods
            in a step
        first_us (integer? [us]): start of the first recorded step, Unix time; null without times of day
        last_us (integer? [us]): end of the last recorded step, Unix time; null without times of day
        step_every_s (seconds?): time from one step to the next, fitted to their beginnings by step number;
            null without times of day, or with fewer than 4 steps
        beat_scatter (fraction? >= 0): how far the beginnings of steps are from that fit, root mean square, in
            periods of the dominant component
        peak_us (integer? [us]): a peak of the dominant component, in the middle of the recorded steps, Unix
            time; null where beat_scatter is null or above 1/8
        """),
    alike=("computing_share", "computing_share_low", "computing_share_high"),
    expectations=col.rules(f"""
        -- swing = high - low
        swing_of_shares: {col.agree("swing_share", "high_share - low_share", col.SAME_FORMULA)}
        -- harmonic, period and amplitude of the dominant component exist together
        dominant_component_is_whole: (dominant_harmonic IS NULL) = (dominant_period_s IS NULL) AND
            (dominant_harmonic IS NULL) = (dominant_amplitude IS NULL)
        -- the time of a peak exists only where steps have a beat
        a_peak_has_a_beat: peak_us IS NULL OR (beat_scatter IS NOT NULL AND step_every_s IS NOT NULL)
        """),
)

JOB_MEGAWATTS: Final = Table(
    "job_megawatts",
    "One row per unit of job_power: its power, by the watts of its gpu_type in the settings ([power]). "
    "world_size x (otherwise_w + share x (computing_w - otherwise_w)) / 1e6: for the GPUs alone, without "
    "hosts, network and cooling. Null where the settings have no watts for the type.",
    grain=UNIT_KEY,
    columns=col.declared("""
        log_date, job_id, run_id
        gpu_type (text?): type of all GPUs of the unit, from the manifest; null if it states none, or several
        world_size (size >= 1): GPUs of the run, from the manifest
        hours (real? [h] >= 0 <= 24): how long the unit ran on its log date: gpu_hours / world_size, else from
            started_at to ended_at, in UTC; null: the manifest does not say
        computing_w (real? [W] >= 0): power of one GPU while it computes; null: not in the settings
        otherwise_w (real? [W] >= 0): power of one GPU while it does not compute; null: not in the settings
        mean_mw (real? [MW] >= 0): power of all GPUs at mean_share; null without computing_w
        low_mw (real? [MW] >= 0): power of all GPUs at low_share; null without computing_w
        high_mw (real? [MW] >= 0): power of all GPUs at high_share; null without computing_w
        swing_mw (real? [MW] >= 0): high_mw - low_mw; null without computing_w
        energy_mwh (real? [MWh] >= 0): mean_mw x hours; null without either
        """),
    expectations=col.rules("""
        -- megawatts exist exactly where the settings have watts, energy also needs hours
        watts_make_megawatts: (computing_w IS NULL) = (mean_mw IS NULL) AND (computing_w IS NULL) = (swing_mw
            IS NULL) AND (energy_mwh IS NULL) = (mean_mw IS NULL OR hours IS NULL)
        """),
)

POWER_DAY: Final = Table(
    "power_day",
    "One row per log date with a unit in job_power: expected figures of the fleet at a random moment of the "
    "day, where each unit runs with probability hours / 24. swing_*: if all peaked together; "
    "independent_swing_*: if each peaked at any time, the root of the sum of the squares. Only units that "
    "state how long they ran count (timed_jobs); megawatts only those whose GPUs have watts in the settings "
    "(powered_jobs); null: none.",
    grain=("log_date",),
    columns=col.declared("""
        log_date
        jobs (count): units in job_power
        timed_jobs (count): units that state how long they ran
        powered_jobs (count): timed units with megawatts
        in_phase_pairs (count): pairs of units that swing in phase; power_in_phase has the largest
        gpus (real [GPU] >= 0): GPUs in use
        computing_gpus (real [GPU] >= 0): GPUs in use that compute
        swing_gpus (real [GPU] >= 0): swing of computing_gpus if all units peak together
        independent_swing_gpus (real [GPU] >= 0): the same if each peaks at any time
        mean_mw (real? [MW] >= 0): sum of the units' mean_mw
        low_mw (real? [MW] >= 0): sum of their low_mw: all at their lowest together
        high_mw (real? [MW] >= 0): sum of their high_mw: all at their highest together
        swing_mw (real? [MW] >= 0): sum of their swing_mw
        independent_swing_mw (real? [MW] >= 0): root of the sum of the squares of their swing_mw
        energy_mwh (real? [MWh] >= 0): sum of the units' energy
        """),
    expectations=col.rules("""
        -- powered_jobs <= timed_jobs <= jobs
        counts_are_nested: jobs >= 1 AND timed_jobs <= jobs AND powered_jobs <= timed_jobs
        -- megawatts exist exactly if a unit has them
        megawatts_with_watts: (powered_jobs > 0) = (mean_mw IS NOT NULL AND swing_mw IS NOT NULL AND
            energy_mwh IS NOT NULL)
        """),
)

POWER_IN_PHASE: Final = Table(
    "power_in_phase",
    "One row per pair of units of a log date that swing in phase: both were recorded for at least ten common "
    "periods, in which their dominant components drift apart by at most 1/4 period, and in the middle of "
    "which their peaks are at most 1/8 period apart. Units without a known phase (job_power.peak_us) are in "
    "no pair. If a day has more pairs, the 1,000 that swing most are stored.",
    grain=("log_date", "job_id", "run_id", "other_job_id", "other_run_id"),
    columns=col.declared("""
        log_date, job_id, run_id
        other_job_id (text): job of the other unit
        other_run_id (text): run of the other unit
        period_s (seconds): step_every_s / dominant_harmonic of the unit
        other_period_s (seconds): period of the other unit, computed in the same way
        common_s (seconds >= 0): time in which both units were recorded
        drift (fraction >= 0 <= 0.25): periods by which the two units drift apart in that time
        phase_difference (fraction >= -0.125 <= 0.125): how much later the other unit peaks, in the middle of
            that time, in periods
        swing_gpus (real [GPU] >= 0): by how many GPUs their dominant components swing together
        swing_mw (real? [MW] >= 0): the same in megawatts; null if the settings have no watts of a type
        """),
)
