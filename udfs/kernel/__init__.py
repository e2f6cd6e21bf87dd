"""The what-if kernel: dense arrays in, dense arrays out; numpy and the standard library only.

Every array of ops has the axes (op, scenario, step, dp_rank), leaving out those it does not need.
"""

import numpy as np

# Freed at once, 31 MB: from then on glibc keeps so much of what is freed. Before, it gave the pages of most
# arrays back and faulted them in again for the next ones: up to a quarter of a unit's time.
np.empty(31 << 17)
