"""Run all benchmarks (`make bench`); with --write-baseline, also save the results as the new baseline.

`python -m tests.benchmarks --against OTHER` times only the simulator: that of this checkout, and that of the
checkout in the folder OTHER.
"""

import sys
from pathlib import Path

from tests.benchmarks import against, figures, night, simulator

if "--against" in sys.argv[1:]:
    others = sys.argv[sys.argv.index("--against") + 1 :]
    against.compare([Path(each).resolve() for each in others])
    sys.exit()

YARDSTICK = "10,000 np.add calls on 640 float64, run between the repeats"

found = [
    *figures.show("The simulator, warm, in process; medians", YARDSTICK, simulator.figures()),
    *figures.show("Growth", YARDSTICK, simulator.growth()),
    *figures.show("A night", "a UDF over the same rows that only counts them", night.figures()),
]
if "--write-baseline" in sys.argv[1:]:
    figures.write_baseline(found)
