-- One row per analysed unit with slowdown at least $straggling_slowdown, with hints at the reason: the parts of the
-- loss that slow workers and the last stage cause, and the op type, the stage and the worker with the highest slowdown
-- of the unit alone.
WITH slowest_op_type AS (
    SELECT log_date, job_id, run_id, max_by(struct(op_type, slowdown), slowdown) AS slowest
    FROM op_type_slowdown
    GROUP BY log_date, job_id, run_id
),

slowest_stage AS (
    SELECT log_date, job_id, run_id, max_by(struct(pp_rank, slowdown), slowdown) AS slowest
    FROM stage_slowdown
    GROUP BY log_date, job_id, run_id
),

slowest_worker AS (
    SELECT log_date, job_id, run_id, max_by(struct(dp_rank, pp_rank, host, slowdown), slowdown) AS slowest
    FROM worker_slowdown
    GROUP BY log_date, job_id, run_id
)

SELECT
    log_date, job_id, run_id, cluster, team, model, world_size, slowdown, waste_fraction, gpu_hours,
    wasted_gpu_hours, lost_fraction, lost_gpu_hours, slow_worker_share, last_stage_share,
    forward_backward_correlation,
    slowest_op_type.slowest.op_type AS slowest_op_type,
    slowest_op_type.slowest.slowdown AS slowest_op_type_slowdown,
    slowest_stage.slowest.pp_rank AS slowest_stage,
    slowest_stage.slowest.slowdown AS slowest_stage_slowdown,
    slowest_worker.slowest.dp_rank AS slowest_worker_dp_rank,
    slowest_worker.slowest.pp_rank AS slowest_worker_pp_rank,
    slowest_worker.slowest.host AS slowest_worker_host,
    slowest_worker.slowest.slowdown AS slowest_worker_slowdown
FROM job_days
LEFT JOIN slowest_op_type USING (log_date, job_id, run_id)
LEFT JOIN slowest_stage USING (log_date, job_id, run_id)
LEFT JOIN slowest_worker USING (log_date, job_id, run_id)
WHERE is_straggling
