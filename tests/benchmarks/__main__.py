"""All benchmarks: `make bench`; with --write-baseline, later runs are compared with this one."""

import sys

from tests.benchmarks import figures, night, simulator

YARDSTICK = "10,000 np.add calls on 640 float64, run between the repeats"

found = [
    *figures.show("The simulator, warm, in process; medians", YARDSTICK, simulator.figures()),
    *figures.show("Growth", YARDSTICK, simulator.growth()),
    *figures.show("A night", "a UDF over the same rows that only counts them", night.figures()),
]
if "--write-baseline" in sys.argv[1:]:
    figures.write_baseline(found)
