-- What should be fixed first, and what does that fix return?
SELECT
    cause,
    coalesce(host, concat_ws(', ', job_ids)) AS where_it_is,
    units,
    round(attributed_gpu_hours) AS attributed_gpu_hours,
    round(recoverable_gpu_hours) AS recoverable_gpu_hours
FROM fix_first
LIMIT 5
