-- One row per op of every stored rank and step, with the op type's name. position is the op's place in the
-- line, from 0; start_us and end_us count from the row's own zero (t0_us), which every rank and step has for itself.
SELECT
    log_date,
    job_id,
    run_id,
    step,
    rank,
    dp_rank,
    pp_rank,
    tp_rank,
    cp_rank,
    host,
    gpu,
    t0_us,
    position,
    element_at(array($op_names), one.op + 1) AS op_type,
    one.start_us AS start_us,
    one.duration_us AS duration_us,
    one.start_us + one.duration_us AS end_us,
    one.microbatch AS microbatch,
    one.model_chunk AS model_chunk
FROM rank_steps
LATERAL VIEW posexplode(arrays_zip(op, start_us, duration_us, microbatch, model_chunk)) exploded AS position, one
