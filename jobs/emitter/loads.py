"""Iterator over batches that records each `next` as the loading of a microbatch."""

import time
from collections.abc import Iterator
from typing import Any


class Loads:
    """Passes on an iterator's items and reports to the recorder how long each took.

    By the host's clock, also where the ops of a step are timed on the GPU: a load runs on the host.
    """

    def __init__(self, iterator: Any, recorder: Any, microbatch: int | None, model_chunk: int) -> None:
        """Wrap an iterator or an iterable."""
        self._iterator = iterator if hasattr(iterator, "__next__") else iter(iterator)
        self._recorder, self._microbatch, self._model_chunk = recorder, microbatch, model_chunk

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        start_ns = time.perf_counter_ns()
        batch = next(self._iterator)
        self._recorder.loaded(start_ns, time.perf_counter_ns(), self._microbatch, self._model_chunk)
        return batch

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__.get("_iterator"), name)
