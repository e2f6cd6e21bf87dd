-- How effective is training, by each public definition? There is one row per definition: fraction is counted_gpu_hours
-- over of_gpu_hours. Scheduling, runtime and program goodput multiply to ML productivity goodput (MPG); here the ideal
-- time of the what-if replaces the roofline in the definition of program goodput. Of the time without GPUs, only the
-- wait from submission to start is known; scheduling goodput is null if no event records a submission. All rows cover
-- units with events, known_fraction of the GPU-hours. udfs/README.md, "Effective time", compares the definitions.
WITH hours AS (
    SELECT
        sum(scheduled_gpu_hours) AS stated,
        sum(measured_gpu_hours) AS allocated,
        sum(elapsed_gpu_hours) AS elapsed,
        sum(kept_gpu_hours) AS kept,
        sum(stepped_gpu_hours) AS stepped,
        sum(productive_gpu_hours) AS ideal,
        sum(CASE WHEN queued_gpu_hours IS NOT NULL THEN measured_gpu_hours END) AS submitted,
        sum(queued_gpu_hours + measured_gpu_hours) AS wanted
    FROM effective_time
    WHERE $in_period
),

named AS (
    SELECT
        allocated, stated,
        explode(array(
            struct(1 AS place, 'ettr' AS definition, 'ByteRobust, arXiv 2509.16293' AS source,
                kept AS counted_gpu_hours, allocated AS of_gpu_hours),
            struct(2 AS place, 'goodput' AS definition, 'ml-goodput-measurement' AS source,
                kept AS counted_gpu_hours, elapsed AS of_gpu_hours),
            struct(3 AS place, 'training_time_rate' AS definition, 'MegaScale, arXiv 2402.15627' AS source,
                stepped AS counted_gpu_hours, elapsed AS of_gpu_hours),
            struct(4 AS place, 'scheduling_goodput' AS definition, 'MPG, arXiv 2502.06982' AS source,
                submitted AS counted_gpu_hours, wanted AS of_gpu_hours),
            struct(5 AS place, 'runtime_goodput' AS definition, 'MPG, arXiv 2502.06982' AS source,
                kept AS counted_gpu_hours, allocated AS of_gpu_hours),
            struct(6 AS place, 'program_goodput' AS definition, 'MPG, arXiv 2502.06982' AS source,
                ideal AS counted_gpu_hours, kept AS of_gpu_hours),
            struct(7 AS place, 'mpg' AS definition, 'MPG, arXiv 2502.06982' AS source,
                ideal * try_divide(submitted, wanted) AS counted_gpu_hours, allocated AS of_gpu_hours),
            struct(8 AS place, 'productive_fraction' AS definition, 'this project' AS source,
                ideal AS counted_gpu_hours, allocated AS of_gpu_hours)
        )) AS one
    FROM hours
)

SELECT
    one.definition, one.source,
    try_divide(one.counted_gpu_hours, one.of_gpu_hours) AS fraction,
    one.counted_gpu_hours, one.of_gpu_hours,
    try_divide(allocated, stated) AS known_fraction
FROM named
ORDER BY one.place
