"""What a history is drawn like: shares of Lin et al., OSDI '25 (arXiv 2505.05713), and where we chose.

CITED marks what others report of the paper in print: 3,079 jobs in five months, 42.5 % of them straggling,
10.4 % of the GPU-hours wasted, the worst 10 % wasting at least 21.3 %, 1.7 % of the straggling jobs due to
slow workers, slowness that persists within a job. RECALLED marks its figures for which no text was at hand to
hold them against. CHOSEN marks what the paper does not say, or not so that it could be drawn.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from schemas.vocabulary import (
    STATUS_ANALYSED,
    STATUS_BAD_LAYOUT,
    STATUS_CORRUPT_TRACE,
    STATUS_HIGH_DISCREPANCY,
    STATUS_MISSING_WORKERS,
    STATUS_NO_MANIFEST,
    STATUS_NO_OPS,
    STATUS_TOO_FEW_STEPS,
    STATUS_TOO_MANY_RESTARTS,
)

JOBS: Final = 3079
"""CITED."""
DAYS: Final = 150
"""CITED: five months."""

STATUS_SHARES: Final[Mapping[str, float]] = MappingProxyType(
    {
        STATUS_ANALYSED: 0.5,
        STATUS_TOO_MANY_RESTARTS: 0.13,
        STATUS_MISSING_WORKERS: 0.1,
        STATUS_TOO_FEW_STEPS: 0.13,
        STATUS_HIGH_DISCREPANCY: 0.08,
        STATUS_CORRUPT_TRACE: 0.03,
        STATUS_NO_OPS: 0.01,
        STATUS_NO_MANIFEST: 0.01,
        STATUS_BAD_LAYOUT: 0.01,
    }
)
"""Shares of jobs by what becomes of them. RECALLED: that restarts, steps, workers and discrepancy leave out
more than half of the jobs, and less than half of the GPU-hours; CHOSEN: each share."""

WORLD_SIZES: Final[Mapping[int, float]] = MappingProxyType(
    {
        128: 0.45,
        192: 0.233,
        256: 0.09,
        384: 0.044,
        512: 0.065,
        1024: 0.05,
        2048: 0.032,
        5120: 0.036,
    }
)
"""Shares of jobs by GPUs. RECALLED: at least 128; 31.7 % at least 256, 18.3 % at least 512, 3.6 % at least
5,000 (section 3). CHOSEN: the sizes between."""

WITHOUT_PIPELINE: Final = 0.21
"""RECALLED: share of jobs without pipeline parallelism."""

LOSS_LAYERS: Final = 0.6
"""Share of pipelines whose last stage also has a loss layer that the layout does not balance. RECALLED: in
39.3 % of
the jobs the last stage is behind at least half of the loss."""

UNEVEN_DATA: Final = 0.3
"""Share of jobs with sequences of uneven length. RECALLED: in 21.4 % the correlation is at least 0.9. CHOSEN:
more have them, so weakly that other things hide them."""

PAUSES: Final = 0.2
WEAK_GPUS: Final = 0.006
SLOW_NETWORKS: Final = 0.03
"""Shares of jobs with garbage collection at no fixed time, with one slow worker, with a slow network. CITED:
slow workers are behind 1.7 % of the straggling jobs; CHOSEN: the others."""

ONE_DAY: Final = 0.7
MEAN_FURTHER_DAYS: Final = 3.5
MOST_DAYS: Final = 30
"""CHOSEN: most jobs run for a day or less; the others for two days and a geometric number more."""

SPELLS_PER_JOB: Final = 0.01
CHRONIC: Final = 0.25
"""CHOSEN: hosts that are slow for a while, for each job of the history, and the share of them that stay so
for weeks; the others recover within three days."""

FIX_AT: Final = 0.6
FIXED_TEAM: Final = "research"
FIX_LABEL: Final = "sequence_balancing"
"""CHOSEN: after this part of the days one team balances its sequences, which the paper proposes."""
