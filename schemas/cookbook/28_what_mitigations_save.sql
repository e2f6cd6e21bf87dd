-- What would each mitigation save, fleet-wide, and how sure is it?
SELECT
    mitigation,
    count(*) AS runs,
    sum(flagged) AS flagged_units,
    round(sum(saved), 1) AS gpu_hours_saved,
    round(sum(saved) - sqrt(sum(half * half)), 1) AS low,
    round(sum(saved) + sqrt(sum(half * half)), 1) AS high
FROM (
    -- as sure as the fix of its cause; over the days of a run errors add up, over runs their squares do
    SELECT
        mitigation,
        sum(gpu_hours_saved) AS saved,
        sum(
            try_divide(gpu_hours_saved, recoverable_gpu_hours)
            * (recoverable_gpu_hours_high - recoverable_gpu_hours_low) / 2
        ) AS half,
        count_if(flag_reason IS NOT NULL) AS flagged
    FROM mitigations
    LEFT JOIN job_causes USING (log_date, job_id, run_id, cause)
    WHERE gpu_hours_saved > 0
    GROUP BY mitigation, job_id, run_id
)
GROUP BY mitigation
ORDER BY gpu_hours_saved DESC
