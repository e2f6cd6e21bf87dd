-- Waste of the analysed jobs, as a share of their time and in GPU-hours: exact, interpolated percentiles (section 4.1).
-- In the paper the worst tenth of the jobs wastes at least 21.3 %.
WITH runs AS ($runs)

SELECT
    count(*) AS jobs,
    count_if(is_analysed) AS analysed,
    percentile(waste_fraction, 0.5) AS waste_p50,
    percentile(waste_fraction, 0.9) AS waste_p90,
    percentile(waste_fraction, 0.99) AS waste_p99,
    percentile(wasted_gpu_hours, 0.5) AS wasted_gpu_hours_p50,
    percentile(wasted_gpu_hours, 0.9) AS wasted_gpu_hours_p90,
    percentile(wasted_gpu_hours, 0.99) AS wasted_gpu_hours_p99
FROM runs
