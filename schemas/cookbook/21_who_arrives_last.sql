-- Which ranks arrive last at collectives most often, and how late are they on average?
SELECT
    job_id,
    communicator,
    rank,
    host,
    sum(collectives) AS collectives,
    sum(times_last) AS times_last,
    round(sum(mean_late_us * collectives) / sum(collectives) / 1000, 1) AS late_ms
FROM collective_arrival
GROUP BY job_id, run_id, communicator, rank, host
ORDER BY times_last DESC, job_id, communicator, rank
LIMIT 5
