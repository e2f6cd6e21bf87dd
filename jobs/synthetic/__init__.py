"""Generated training jobs with known truth: an event simulation that records the same data as a real job.

It shares nothing with the what-if kernel, so that its logs can test, judge, show and time the pipeline.

A JobPlan (layout, usual times, mechanisms, seed, identity) is run by a Simulation; recorded_job makes its
rows, true_savings runs the very same job without each cause and each mechanism. sample_job draws a plan with
any layout (fleets, evaluation), draw_like_the_papers one as large and as often at fault as the paper's
(histories), demo.py lists those of the demo. A Fleet places jobs in time and on hosts and writes what is left
of their logs. True savings run a job again for each cause, so histories of hundreds of millions of ops do
without.

A WholeSimulation runs several jobs as roles of one whole that wait for each other.

What goes wrong lies in `mechanisms`, by the cause that a diagnosis should name; their
modules say what a job without it does. Those of no cause are in nuisances.py.
"""
