"""Generated training jobs with known faults: an event simulation that records the same data as a real job.

The generator shares no code with the what-if kernel, so that its logs can be used to test the pipeline, to
judge its answers, to show them in a demo, and to measure its speed.

A Simulation runs a JobPlan (layout, usual times, mechanisms, seed, identity). recorded_job returns the rows
that a profiler would record, and true_savings the time that the same job saves without each cause and each
mechanism. sample_job draws plans with any layout, for fleets and the evaluation; draw_like_the_papers draws
plans whose sizes and faults are distributed as in the paper, for histories; demo.py lists the plans of the
demo. A Fleet places jobs in time and on hosts, and writes their logs. Histories have no true savings, because
these need a rerun for each cause.

A WholeSimulation runs several jobs, as roles of one whole that wait for each other.

The package `mechanisms` has the faults that are planted in jobs, in modules by the cause that a diagnosis
should name. nuisances.py has effects that should not be diagnosed as any cause.
"""
