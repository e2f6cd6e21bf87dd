-- How well the replay matches the recording (section 3): percentiles of the discrepancy of job days, over analysed days
-- and over all replayed days.
SELECT
    count(*) AS replayed_job_days,
    count_if(is_analysed) AS analysed_job_days,
    percentile(discrepancy, 0.5) FILTER (WHERE is_analysed) AS analysed_p50,
    percentile(discrepancy, 0.9) FILTER (WHERE is_analysed) AS analysed_p90,
    percentile(discrepancy, 0.5) AS replayed_p50,
    percentile(discrepancy, 0.9) AS replayed_p90
FROM job_days
WHERE discrepancy IS NOT NULL AND $in_period
