-- For which op types of moe-8x22b is the longest op furthest above the median?
SELECT
    op_type,
    count(*) AS ops,
    round(median(duration_us)) AS median_us,
    round(max(duration_us)) AS longest_us
FROM ops
WHERE job_id = 'moe-8x22b' AND log_date = DATE'2026-01-07'
GROUP BY op_type
ORDER BY try_divide(max(duration_us), median(duration_us)) DESC NULLS LAST, op_type
LIMIT 6
