"""Tables of how power swings as workers compute and wait: in a unit, over a day, and in pairs of units."""

from typing import Final

from schemas import columns as col
from schemas.table import Table
from schemas.vocabulary import UNIT_KEY

JOB_POWER: Final = Table(
    "job_power",
    "One row per replayed unit: the share of its workers that compute (forward, backward, optimizer) in "
    "each 128th of a step, over the recorded steps. All ranks of a worker count as computing when its "
    "replayed rank does. The table job_megawatts has the power in megawatts.",
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
        swing_share (fraction >= 0 <= 1): high_share - low_share: swing of the mean over steps
        step_swing_share (fraction >= 0 <= 1): largest less smallest share within a step, mean over steps
        dominant_harmonic (count?): periods per step of the largest Fourier component of computing_share;
            null: computing_share is constant
        dominant_period_s (seconds?): period of the dominant component, actual_step_s / dominant_harmonic;
            null without one
        dominant_amplitude (fraction? >= 0): amplitude of the dominant component, half of its swing; null
            without one
        harmonic_amplitudes (real32[] [fraction] >= 0): amplitudes of the components with 1, 2, ... 8 periods
            per step
        first_us (integer? [us]): start of the first recorded step, Unix time; null without times of day
        last_us (integer? [us]): end of the last recorded step, Unix time; null without times of day
        step_every_s (seconds?): time from one step to the next, by a linear fit of the starts of steps over
            their numbers; null without times of day, or with fewer than 4 steps
        beat_scatter (fraction? >= 0): root mean square distance of the starts of steps from that fit, in
            periods of the dominant component
        peak_us (integer? [us]): a peak of the dominant component in the middle of the recorded steps, Unix
            time; null if beat_scatter is null or above 1/8
        """),
    alike=("computing_share", "computing_share_low", "computing_share_high"),
    expectations=col.rules(f"""
        -- swing = high - low
        swing_of_shares: {col.agree("swing_share", "high_share - low_share", col.SAME_FORMULA)}
        -- harmonic, period and amplitude of the dominant component exist together
        dominant_component_is_whole: (dominant_harmonic IS NULL) = (dominant_period_s IS NULL) AND
            (dominant_harmonic IS NULL) = (dominant_amplitude IS NULL)
        -- peak_us exists only if beat_scatter and step_every_s do
        a_peak_has_a_beat: peak_us IS NULL OR (beat_scatter IS NOT NULL AND step_every_s IS NOT NULL)
        """),
)

JOB_MEGAWATTS: Final = Table(
    "job_megawatts",
    "One row per unit of job_power: its power, by the watts of its gpu_type in the settings ([power]). At a "
    "share of computing workers, the power is world_size x (otherwise_w + share x (computing_w - "
    "otherwise_w)) / 1e6, of the GPUs alone, without hosts, network and cooling. It is null if the settings "
    "have no watts for the type.",
    grain=UNIT_KEY,
    columns=col.declared("""
        log_date, job_id, run_id
        gpu_type (text?): type of all GPUs of the unit, from the manifest; null if it states none, or several
        world_size (size >= 1): GPUs of the run, from the manifest
        hours (real? [h] >= 0 <= 24): how long the unit ran on its log date: gpu_hours / world_size, or else
            from started_at to ended_at, in UTC; null: the manifest states neither
        computing_w (real? [W] >= 0): power of one GPU while it computes; null: not in the settings
        otherwise_w (real? [W] >= 0): power of one GPU while it does not compute; null: not in the settings
        mean_mw (real? [MW] >= 0): power of all GPUs at mean_share; null without computing_w
        low_mw (real? [MW] >= 0): power of all GPUs at low_share; null without computing_w
        high_mw (real? [MW] >= 0): power of all GPUs at high_share; null without computing_w
        swing_mw (real? [MW] >= 0): high_mw - low_mw; null without computing_w
        energy_mwh (real? [MWh] >= 0): mean_mw x hours; null if either is null
        """),
    expectations=col.rules("""
        -- megawatts exist exactly if the settings have watts; energy also needs hours
        watts_make_megawatts: (computing_w IS NULL) = (mean_mw IS NULL) AND (computing_w IS NULL) = (swing_mw
            IS NULL) AND (energy_mwh IS NULL) = (mean_mw IS NULL OR hours IS NULL)
        """),
)

POWER_DAY: Final = Table(
    "power_day",
    "One row per log date with a unit in job_power: expected figures of the fleet at a random moment of the "
    "day, at which each unit runs with probability hours / 24. swing_* are the swings if all units peak at "
    "the same moment; independent_swing_* are the swings if each peaks at any moment: the root of the sum "
    "of their squares. Only units with known hours count (timed_jobs); for megawatts only those with watts "
    "in the settings (powered_jobs), and megawatts are null if there are none.",
    grain=("log_date",),
    columns=col.declared("""
        log_date
        jobs (count): units in job_power
        timed_jobs (count): units in job_power with known hours
        powered_jobs (count): timed units with megawatts
        in_phase_pairs (count): pairs of units that swing in phase; power_in_phase has the largest
        gpus (real [GPU] >= 0): GPUs in use
        computing_gpus (real [GPU] >= 0): GPUs in use that compute
        swing_gpus (real [GPU] >= 0): swing of computing_gpus if all units peak together
        independent_swing_gpus (real [GPU] >= 0): swing of computing_gpus if each unit peaks at any time
        mean_mw (real? [MW] >= 0): sum of the units' mean_mw
        low_mw (real? [MW] >= 0): sum of the units' low_mw, as if all were at their lowest together
        high_mw (real? [MW] >= 0): sum of the units' high_mw, as if all were at their highest together
        swing_mw (real? [MW] >= 0): sum of the units' swing_mw
        independent_swing_mw (real? [MW] >= 0): root of the sum of the squares of the units' swing_mw
        energy_mwh (real? [MWh] >= 0): sum of the units' energy_mwh
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
    "One row per pair of units of a log date whose power swings in phase. That means: both were recorded "
    "during at least ten periods at the same time, their dominant components drift apart by at most 1/4 "
    "period in that time, and in its middle their peaks are at most 1/8 period apart. Units without a known"
    " phase (job_power.peak_us) are in no pair. Of a day with more than 1,000 pairs, the 1,000 that swing "
    "most are stored.",
    grain=("log_date", "job_id", "run_id", "other_job_id", "other_run_id"),
    columns=col.declared("""
        log_date, job_id, run_id
        other_job_id (text): job of the other unit
        other_run_id (text): run of the other unit
        period_s (seconds): step_every_s / dominant_harmonic of the unit
        other_period_s (seconds): period of the other unit, computed in the same way
        common_s (seconds >= 0): time in which both units were recorded
        drift (fraction >= 0 <= 0.25): periods by which the two units drift apart in common_s
        phase_difference (fraction >= -0.125 <= 0.125): periods by which the other unit peaks later, in the
            middle of common_s
        swing_gpus (real [GPU] >= 0): swing of the sum of both dominant components, in GPUs
        swing_mw (real? [MW] >= 0): swing_gpus in megawatts; null if the settings lack watts of either type
        """),
)
