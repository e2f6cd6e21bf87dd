"""Who may write at a time: slots of one pool, which every task that writes tables takes from.

On a local store a commit of one process can silently replace that of another, so there is one writer at a
time: each takes all slots. So it is on S3, unless Spark has Delta's LogStore for several applications. A
store that never overwrites a commit (ABFS, GCS, HDFS; the environment says WHAT_IF_STORE=atomic where DAG
files are read) lets the ingest of one day run beside the stages of another: what both write is the log of
runs and the fingerprints, and there the loser of two commits tries again. Those that write all tables stay
alone.
"""

import os
from typing import Final

POOL: Final = "what_if_writers"
SLOTS: Final = 3
"""Slots of the pool: `airflow pools set what_if_writers 3 "tasks that write tables"` makes it."""

_IS_ATOMIC: Final = os.environ.get("WHAT_IF_STORE") == "atomic"

ALONE: Final = SLOTS
"""For a task that writes any table."""
INGEST: Final = 1 if _IS_ATOMIC else ALONE
"""For one that writes the ingested tables."""
RESULTS: Final = 2 if _IS_ATOMIC else ALONE
"""For one that writes, or looks across, the others: never two of these, the causes of days hang together."""
