-- What should be fixed first, and what would each fix alone save?
SELECT
    cause,
    coalesce(host, concat_ws(', ', job_ids)) AS where_it_is,
    units,
    round(lost_gpu_hours) AS lost_gpu_hours,
    round(recoverable_gpu_hours) AS recoverable_gpu_hours
FROM fix_first
LIMIT 5
