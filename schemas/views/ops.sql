-- One row per op of every stored rank and step, with the name of its op type. position is the place of the op in the
-- log line, from 0; start_us and end_us count from t0_us, which differs between ranks and steps.
SELECT
    log_date, job_id, run_id, step, rank, dp_rank, pp_rank, tp_rank, cp_rank, host, gpu,
    t0_us,
    one.position,
    element_at(array($op_names), one.op + 1) AS op_type,
    one.start_us, one.duration_us,
    one.start_us + one.duration_us AS end_us,
    one.microbatch,
    one.model_chunk
FROM (
    SELECT
        *,
        explode(
            transform(
                op,
                (code, place) -> struct(
                    place AS position,
                    code AS op,
                    element_at(start_us, place + 1) AS start_us,
                    element_at(duration_us, place + 1) AS duration_us,
                    element_at(microbatch, place + 1) AS microbatch,
                    element_at(model_chunk, place + 1) AS model_chunk
                )
            )
        ) AS one
    FROM rank_steps
)
