"""Second simulation, with faults of any direction, onset and reach, for evaluating the diagnosis.

It is written from the contract alone and shares nothing with the generator of the demo, nor with the
diagnosis: `timeline` runs pipelines event by event, `noise` draws healthy jobs, `faults` and `oddities` say
what is slow, `draw` puts jobs together, `truth` runs the same draws without each fault, `judge` compares,
`report` counts.

Which faults can be decided, from layout and draw alone, written before the judged runs
(`truth.why_undecidable`):

- A fault that saves less than 2.5 % of the step, beside the others that are there, need not be named.
- Slow workers are known by their peers: the replicas of their stage in the same step. Where more than half
  of these are slow, alone or together with other faults of the same ops, time must tell: a sixth of the
  steps, and three at least, must show the stage with at most half of its replicas slow. So a worker that is
  slow always, without replicas, or a stage whose workers are all slow always, can as well be heavy work.
  The same holds for optimizer, gc, clip, loads and late entries into collectives.
- In steps in which every worker of the job is slow, nothing shows it: most of a fault's steps must be
  others.
- Whole replicas that are slow in both directions look like replicas with more data: where data are uneven
  in the same steps, they must be slower by four standard errors of what data give them by chance.
- Workers that begin steps late are compared with all workers: at most half are late, or time must tell.
- A heavy stage is known where it has replicas on more than one host, and no host holds exactly one stage;
  not where the workers of a whole stage are also slow always.
- Links are compared with the others of the pipeline: at most half, and not the only one, or time must tell.
  A stage's collective may be larger than that of others, so that time must tell.
- Uneven data and pauses can always be known: a worker has four computes of a direction at least in a step,
  and of these at most one is struck by a pause.
- What `oddities` draws fits no cause. Right is to name nothing, and to count what is lost.

A name is wrong if its row has no flag, and no fault of that name saves at least 1.5 %. Not wrong, though
not wanted: a heavy stage where all workers of a stage are slow always, unless one host holds just these;
launch_delay for a late entry into a collective, and slow_worker for a late start; pause where every second
op of some steps, or the first ones, are slow; slow_worker where in every step another half of the workers
is. A flagged name is neither wrong nor named.

What a job loses can be known if each of its faults can be decided, saves too little, or fits no cause: the
work of a heavy stage could only be evened out, the time of a slow one removed. Errors of what is lost are
of such jobs.

A name counts for one of several faults of one cause only if a culprit meets its workers. The place is right
if all its workers are named, and none that is in no such fault; of a link's ends, and of several heavy
stages, one is enough. First step and course are asked where at least 5 % is saved, the first step not where
the fault grows; neither of pauses, nor of faults that share a worker and its ops with another fault.
"""
