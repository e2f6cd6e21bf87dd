-- Who causes what in every unit where a cause holds: one row per unit, cause and host where the culprit is a worker on a
-- known host, per unit and cause elsewhere (host null). part is the row's share of the unit's hours, by effect and share
-- of steps, an estimate; the parts of one unit and cause add up to 1, and its hours and the fraction of its step time
-- are shared out accordingly. attributed_gpu_hours may be summed over all rows, recoverable_gpu_hours only within one
-- cause: see job_causes. is_flagged: job_causes says why not to trust the row.
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
)

SELECT
    log_date,
    job_id,
    run_id,
    cause,
    culprit.host AS host,
    max(is_flagged) AS is_flagged,
    sum(
        CASE
            WHEN culprit IS NULL THEN 1
            WHEN total_effect > 0 THEN abs(culprit.effect) * culprit.share_of_steps / total_effect
            ELSE 1 / culprits
        END
    ) AS part,
    part * max(time_saved_fraction) AS time_saved_fraction,
    part * max(attributed_gpu_hours) AS attributed_gpu_hours,
    part * max(recoverable_gpu_hours) AS recoverable_gpu_hours
FROM held
GROUP BY log_date, job_id, run_id, cause, culprit.host
