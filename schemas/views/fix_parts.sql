-- What is lost to which host: one row per analysed unit, cause and host, if the culprit is a host or a worker on a
-- known host, else per unit and cause (host null), and one row per unit for what no cause explains. Pauses lie in the
-- job, with host null, if no host accounts for half of them. lost_fraction, lost_s and lost_gpu_hours may be summed
-- over all rows: those of a unit sum to what the unit loses. part is the row's share of its cause in the unit: by
-- lost_s of culprits if known for all, else, as an estimate, by effect x share of steps; the parts of one unit and
-- cause sum to 1. attributed_gpu_hours and recoverable_gpu_hours are those of job_causes times part;
-- recoverable_gpu_hours, what fixing this cause alone saves, must not be summed over causes. is_flagged: whether the
-- row of job_causes has a flag_reason. Half widths are half of 90 % intervals, and null if an earlier version wrote the
-- row. Each has two parts, whose squares add up: the diagnosis's own error (shared), which is the same on all days of a
-- run and adds up over them, and the sampling error of the day's steps, which is independent, with interval_freedom as
-- in job_causes. Over rows of one unit and cause, half widths add up; over different runs, their squares do.
WITH held AS (
    SELECT
        log_date, job_id, run_id, cause,
        flag_reason IS NOT NULL AS is_flagged,
        time_saved_fraction, attributed_gpu_hours, recoverable_gpu_hours, lost_fraction, lost_gpu_hours,
        greatest(lost_fraction_high - lost_fraction, lost_fraction - lost_fraction_low) AS half_lost,
        greatest(lost_gpu_hours_high - lost_gpu_hours, lost_gpu_hours - lost_gpu_hours_low) AS half_lost_hours,
        greatest(
            recoverable_gpu_hours_high - recoverable_gpu_hours, recoverable_gpu_hours - recoverable_gpu_hours_low
        ) AS half_recoverable,
        diagnosis_error_fraction, interval_freedom,
        size(culprits) AS culprits,
        aggregate(culprits, 0D, (total, each) -> total + abs(each.effect) * each.share_of_steps) AS total_effect,
        aggregate(culprits, 0D, (total, each) -> total + each.lost_s) AS total_lost_s,
        culprit
    FROM job_causes
    LATERAL VIEW OUTER explode(culprits) exploded AS culprit
    WHERE is_cause AND cause <> $unexplained AND lost_fraction IS NOT NULL
),

shares AS (
    SELECT
        * EXCEPT (culprit),
        coalesce(culprit.slow_host, culprit.host) AS culprit_host,
        CASE
            WHEN culprit IS NULL THEN 1
            WHEN total_lost_s > 0 THEN culprit.lost_s / total_lost_s
            WHEN total_effect > 0 THEN abs(culprit.effect) * culprit.share_of_steps / total_effect
            ELSE 1 / culprits
        END AS share
    FROM held
),

placed AS (
    SELECT
        *,
        CASE
            WHEN cause IN ($spread_causes)
                AND max(CASE WHEN culprit_host IS NOT NULL THEN host_share END)
                    OVER (PARTITION BY log_date, job_id, run_id, cause) < 0.5 THEN NULL
            ELSE culprit_host
        END AS host
    FROM (
        SELECT
            *,
            sum(share) OVER (PARTITION BY log_date, job_id, run_id, cause, culprit_host) AS host_share
        FROM shares
    ) AS of_hosts
),

parts AS (
    SELECT
        log_date, job_id, run_id, cause, host,
        max(is_flagged) AS is_flagged,
        sum(share) AS part,
        part * max(time_saved_fraction) AS time_saved_fraction,
        part * max(attributed_gpu_hours) AS attributed_gpu_hours,
        part * max(recoverable_gpu_hours) AS recoverable_gpu_hours,
        part * max(lost_fraction) AS lost_fraction,
        part * max(lost_gpu_hours) AS lost_gpu_hours,
        part * max(half_lost) AS lost_fraction_half_width,
        part * max(half_lost_hours) AS lost_gpu_hours_half_width,
        part * max(half_recoverable) AS recoverable_gpu_hours_half_width,
        part * max(diagnosis_error_fraction) AS shared_fraction,
        max(interval_freedom) AS interval_freedom
    FROM placed
    GROUP BY log_date, job_id, run_id, cause, host

    UNION ALL

    SELECT
        log_date, job_id, run_id, cause,
        CAST(NULL AS STRING) AS host,
        flag_reason IS NOT NULL AS is_flagged,
        1D AS part,
        CAST(NULL AS DOUBLE) AS time_saved_fraction,
        attributed_gpu_hours,
        CAST(NULL AS DOUBLE) AS recoverable_gpu_hours,
        lost_fraction, lost_gpu_hours,
        greatest(lost_fraction_high - lost_fraction, lost_fraction - lost_fraction_low) AS lost_fraction_half_width,
        greatest(lost_gpu_hours_high - lost_gpu_hours, lost_gpu_hours - lost_gpu_hours_low)
            AS lost_gpu_hours_half_width,
        CAST(NULL AS DOUBLE) AS recoverable_gpu_hours_half_width,
        diagnosis_error_fraction AS shared_fraction,
        interval_freedom
    FROM job_causes
    WHERE cause = $unexplained AND lost_fraction > 0
)

SELECT
    parts.* EXCEPT (shared_fraction),
    lost_fraction * actual_total_s AS lost_s,
    lost_fraction_half_width * actual_total_s AS lost_s_half_width,
    least(shared_fraction, lost_fraction_half_width) * actual_total_s AS lost_s_shared,
    least(shared_fraction * gpu_hours, lost_gpu_hours_half_width) AS lost_gpu_hours_shared,
    least(shared_fraction * gpu_hours, recoverable_gpu_hours_half_width) AS recoverable_gpu_hours_shared
FROM parts
JOIN (SELECT log_date, job_id, run_id, actual_total_s, gpu_hours FROM job_slowdown) AS units USING (log_date, job_id, run_id)
