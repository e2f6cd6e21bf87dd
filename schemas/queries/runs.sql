-- Every run over its days: its status, its slowdown against the paper's ideal, and what it loses, the largest losses
-- first.
WITH runs AS ($runs)

SELECT
    job_id, run_id, status, is_analysed, is_straggling, slowdown, waste_fraction, gpu_hours, lost_gpu_hours,
    try_divide(lost_s, analysed_s) AS lost_fraction,
    world_size, team,
    cluster
FROM runs
ORDER BY lost_gpu_hours DESC NULLS LAST, lost_fraction DESC NULLS LAST, job_id, run_id
