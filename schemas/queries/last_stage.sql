-- In how many jobs the last pipeline stage explains at least half of the loss: M_S at least one half (section 5.2).
-- Jobs without a pipeline have no last stage that could; their number is shown too.
WITH runs AS ($runs)

SELECT
    count(*) AS jobs,
    count_if(is_analysed) AS analysed,
    count_if(is_analysed AND pp_size = 1) AS without_pipeline,
    count_if(is_analysed AND $is_stage_driven) AS stage_driven,
    try_divide(count_if(is_analysed AND $is_stage_driven), count_if(is_analysed)) AS stage_driven_share,
    count_if(is_straggling) AS straggling,
    count_if(is_straggling AND $is_stage_driven) AS straggling_stage_driven,
    try_divide(count_if(is_straggling AND $is_stage_driven), count_if(is_straggling))
        AS straggling_stage_driven_share
FROM runs
