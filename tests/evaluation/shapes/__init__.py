"""Simulate jobs with faults of any direction, onset and reach, to evaluate the diagnosis.

The simulation is written from the contract alone, and shares no code with the demo's generator or with the
diagnosis. `timeline` simulates pipelines event by event, `noise` draws jobs without faults, `faults` and
`oddities` define what is slow, `draw` combines them to jobs, `truth` repeats the simulation without each
fault, `judge` compares the diagnosis with the truth, and `report` counts the results.

The following rules decide from layout and draw alone whether a fault must be named
(`truth.why_undecidable`). They were written before the evaluated runs:

- A fault need not be named if fixing it alone, while the job's other faults stay, saves less than 2.5 % of
  the step.
- Slow workers are recognised by comparison with the replicas of their stage in the same step. If more than
  half of these replicas are slow, by this fault or by others of the same ops, other steps must show the stage
  with at most half of its replicas slow: at least a sixth of the steps, and at least three. Without such
  steps, a worker without replicas, or a whole stage, may as well have heavy work. The same rule holds for
  optimizer, gc, clip, data-loads and late entries into collectives.
- Steps in which every worker of the job is slow allow no comparison. In most steps of a fault, some workers
  must be healthy.
- Whole replicas that are slow in both directions look like replicas with more data. If data are uneven in
  the same steps, the replicas must be slower by four standard errors of the differences that uneven data
  cause by chance.
- Workers that begin steps late are compared with all workers. At most half of the workers may be late, or
  enough steps must be without the fault.
- A heavy stage is recognised if it has several replicas, and if no host holds exactly the workers of one
  stage. It is not recognised if most workers of a stage are also slow in nearly all steps.
- Slow links are compared with the pipeline's other links. At most half of the links may be slow, and there
  must be several links, or enough steps must be without the fault. A slow collective is recognised only by
  steps without the fault, because stages may have collectives of different sizes.
- Uneven data and pauses are always recognised, because a worker has at least four computes of each direction
  in a step, and a pause lengthens at most one of them.
- No cause applies to the faults of `oddities`. The right answer names no cause, and counts the loss.

A cause is named wrongly if its row has no flag although no fault of that cause saves at least 1.5 %. A cause
with a flag counts neither as named nor as wrong. The following causes are accepted though not wanted:

- stage_imbalance if most workers of a stage are slow in nearly all steps, unless a host holds exactly these
  workers;
- launch_delay for a late entry into a collective, and slow_worker for a late start;
- pause if a random half of the ops of some steps, or the first ops, are slow;
- slow_worker if a different half of the workers is slow in every step.

The loss of a job is known if each of its faults can be decided, saves too little, or has no cause. Otherwise
the loss is open, because heavy work can only be evened out, whereas the extra time of slow workers can be
removed. Errors of the loss are reported only for jobs whose loss is known.

If a job has several faults of one cause, the cause counts for a fault only if a culprit shares a worker with
that fault. The place is right if all workers of the fault are named, and no worker without a fault of that
cause; of a link's two ends, or of several heavy stages, one is enough. The first step and the course are
judged only for faults that save at least 5 %, but not for pauses, and not for faults that share a worker and
its ops with another fault. The first step of a growing fault is not judged.
"""
