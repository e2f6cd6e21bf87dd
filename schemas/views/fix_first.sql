-- What to fix first, worst first: one row per cause and host where the culprit is a worker on a known host, per cause
-- and job elsewhere, over all days on which the cause holds. attributed_gpu_hours share out what all fixes together
-- return, and add up over all rows without counting an hour twice; recoverable_gpu_hours are what this fix alone
-- returns, and do not add up over causes. Several culprits of one unit share its hours by effect and share of steps, an
-- estimate. time_saved_fraction_max is the largest part of a unit's step time that the fix alone saves: it orders rows
-- whose units state no GPU-hours. flagged_units are those of which job_causes says why not to trust them.
WITH held AS (
    SELECT
        log_date,
        job_id,
        run_id,
        cause,
        flag_reason IS NOT NULL AS is_flagged,
        time_saved_fraction,
        attributed_gpu_hours,
        recoverable_gpu_hours,
        size(culprits) AS culprits,
        aggregate(culprits, 0D, (total, each) -> total + abs(each.effect) * each.share_of_steps) AS total_effect,
        culprit
    FROM job_causes
    LATERAL VIEW OUTER explode(culprits) exploded AS culprit
    WHERE is_cause AND cause <> $unexplained
),

parts AS (
    SELECT
        log_date,
        job_id,
        run_id,
        cause,
        culprit.host AS host,
        max(is_flagged) AS is_flagged,
        max(time_saved_fraction) AS time_saved_fraction,
        max(attributed_gpu_hours) AS attributed_gpu_hours,
        max(recoverable_gpu_hours) AS recoverable_gpu_hours,
        sum(
            CASE
                WHEN culprit IS NULL THEN 1
                WHEN total_effect > 0 THEN abs(culprit.effect) * culprit.share_of_steps / total_effect
                ELSE 1 / culprits
            END
        ) AS part
    FROM held
    GROUP BY log_date, job_id, run_id, cause, culprit.host
)

SELECT
    cause,
    host,
    array_sort(collect_set(job_id)) AS job_ids,
    count(*) AS units,
    count_if(is_flagged) AS flagged_units,
    min(log_date) AS first_day,
    max(log_date) AS last_day,
    sum(part * attributed_gpu_hours) AS attributed_gpu_hours,
    sum(part * recoverable_gpu_hours) AS recoverable_gpu_hours,
    max(part * time_saved_fraction) AS time_saved_fraction_max
FROM parts
GROUP BY cause, host, CASE WHEN host IS NULL THEN job_id END
ORDER BY attributed_gpu_hours DESC NULLS LAST, time_saved_fraction_max DESC, cause, host, job_ids
