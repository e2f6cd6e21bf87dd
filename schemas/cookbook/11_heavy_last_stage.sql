-- In which jobs is it the last stage, and how slow is each stage alone?
SELECT
    job_id,
    round(max(last_stage_share), 2) AS last_stage_share,
    array_agg(round(stage.slowdown, 3)) AS stages
FROM job_slowdown
JOIN (SELECT * FROM stage_slowdown ORDER BY log_date, job_id, run_id, pp_rank) AS stage
    USING (log_date, job_id, run_id)
WHERE log_date = DATE'2026-01-07' AND last_stage_share >= 0.5 AND job_slowdown.slowdown >= 1.1
GROUP BY job_id
ORDER BY last_stage_share DESC, job_id
