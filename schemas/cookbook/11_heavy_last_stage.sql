-- Which jobs are slow because of their last stage, and how slow is each of their stages alone?
SELECT
    job_id,
    round(max(last_stage_share), 2) AS last_stage_share,
    transform(
        array_sort(collect_list(struct(stage_slowdown.pp_rank, stage_slowdown.slowdown))),
        stage -> round(stage.slowdown, 3)
    ) AS stages
FROM job_slowdown
JOIN stage_slowdown USING (log_date, job_id, run_id)
WHERE log_date = DATE'2026-01-07' AND last_stage_share >= 0.5 AND job_slowdown.slowdown >= 1.1
GROUP BY job_id
ORDER BY last_stage_share DESC, job_id
