"""Code that runs inside a training job: a writer of rank logs, and hooks that time ops.

`make emitter` builds it as a wheel of its own, whose package is called `straggler_emitter`. It needs only the
standard library; the hooks for DDP, FSDP2, pipelining and Megatron also need the library that they hook into.
"""

from .rank_log_writer import Rank, RankLogWriter, Run, Step, finish_day, write_manifest
from .recorder import Recorder
from .run_events import RunEvents

__all__ = ["Rank", "RankLogWriter", "Recorder", "Run", "RunEvents", "Step", "finish_day", "write_manifest"]
