"""The what-if kernel: dense arrays in, dense arrays out; numpy and the standard library only.

Every array of ops has the axes (op, scenario, step, dp_rank), leaving out those it does not need.
"""

import numpy as np

# Raises glibc's dynamic mmap threshold to 31 MB, so that freed arrays are reused. Without it, most pages went
# back to the system and were faulted in again: up to a quarter of a unit's time.
np.empty(31 << 17)
