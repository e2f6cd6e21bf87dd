-- From recorded to productive GPU-hours: one chain, in which each total is the one before less the losses between the two.
-- The view waterfall says what each figure is; of_recorded is its share of the GPU-hours recorded; of_time is its share
-- of the recorded time, with units without stated GPU-hours included. job_days are units that have the figure. GPU-hours
-- are null where none of the units that lose to a cause states any.
SELECT
    place, figure, is_total,
    count(coalesce(gpu_hours, seconds)) AS job_days,
    $gpu_hours_of_figure AS gpu_hours,
    try_divide($gpu_hours_of_figure, max(sum(CASE WHEN figure = 'recorded' THEN gpu_hours END)) OVER ()) AS of_recorded,
    sum(seconds) AS seconds,
    try_divide(sum(seconds), max(sum(CASE WHEN figure = 'recorded' THEN seconds END)) OVER ()) AS of_time
FROM waterfall
WHERE $in_period
GROUP BY place, figure, is_total
ORDER BY place
