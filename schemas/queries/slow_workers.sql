-- In how many straggling jobs slow workers explain most of the loss: M_W above one half (section 5.1). In the paper
-- these are 1.7 % of the straggling jobs, and the slowest ones.
WITH runs AS ($runs)

SELECT
    count(*) AS jobs,
    count_if(is_analysed) AS analysed,
    count_if(is_straggling) AS straggling,
    count_if(is_straggling AND $is_worker_driven) AS worker_driven,
    try_divide(count_if(is_straggling AND $is_worker_driven), count_if(is_straggling)) AS worker_driven_share,
    avg(slowdown) FILTER (WHERE is_straggling AND $is_worker_driven) AS worker_driven_slowdown,
    avg(slowdown) FILTER (WHERE is_straggling) AS straggling_slowdown
FROM runs
