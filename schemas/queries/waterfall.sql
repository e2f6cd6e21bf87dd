-- From recorded to productive GPU-hours: a chain in which each total is the previous total less the losses between the
-- two. The view waterfall defines the figures; of_recorded is a figure's share of the recorded GPU-hours, and of_time
-- its share of the recorded time, which includes units without stated GPU-hours. job_days is the number of units with
-- the figure. GPU-hours are null if none of the units that lose to a cause states any.
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
