-- What would each mitigation save in the whole fleet, and within which interval?
SELECT
    mitigation,
    count(*) AS runs,
    sum(flagged) AS flagged_units,
    round(sum(saved), 1) AS gpu_hours_saved,
    CASE WHEN count(*) = count(half) THEN round(sum(saved) - sqrt(sum(half * half)), 1) END AS low,
    CASE WHEN count(*) = count(half) THEN round(sum(saved) + sqrt(sum(half * half)), 1) END AS high
FROM (
    -- relative width as for the fix of its cause; errors add up over the days of a run, their squares over runs
    SELECT
        mitigation,
        sum(gpu_hours_saved) AS saved,
        CASE
            WHEN count(*) = count(recoverable_gpu_hours_high)
                THEN sum(
                    try_divide(gpu_hours_saved, recoverable_gpu_hours)
                    * (recoverable_gpu_hours_high - recoverable_gpu_hours_low) / 2
                )
        END AS half,
        count_if(flag_reason IS NOT NULL) AS flagged
    FROM mitigations
    LEFT JOIN job_causes USING (log_date, job_id, run_id, cause)
    WHERE gpu_hours_saved > 0
    GROUP BY mitigation, job_id, run_id
)
GROUP BY mitigation
ORDER BY gpu_hours_saved DESC
