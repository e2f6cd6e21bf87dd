"""Code that runs inside a training job: a writer of rank logs, and hooks that time ops.

In a training image this package is called `straggler_emitter`, a separate wheel (`make emitter`): the
standard library alone, and torch or Megatron only in the modules named after them.
"""

from .rank_log_writer import Rank, RankLogWriter, Run, Step, finish_day, write_manifest
from .recorder import Recorder
from .run_events import RunEvents

__all__ = ["Rank", "RankLogWriter", "Recorder", "Run", "RunEvents", "Step", "finish_day", "write_manifest"]
