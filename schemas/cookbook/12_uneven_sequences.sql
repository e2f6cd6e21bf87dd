-- In which straggling jobs are forward and backward times correlated, as with sequences of uneven length?
SELECT
    job_id,
    round(min(forward_backward_correlation), 3) AS least_correlation,
    round(min(slowdown), 3) AS least_slowdown,
    count(*) AS days
FROM job_slowdown
WHERE status = 'analysed' AND slowdown >= 1.1 AND forward_backward_correlation >= 0.9
GROUP BY job_id
ORDER BY least_correlation DESC, job_id
