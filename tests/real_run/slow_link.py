"""Make a link between two stages slow in one direction, by delaying the data that are received over it."""

import functools
import time
from collections.abc import Callable
from multiprocessing import get_context
from typing import Any, Final, NamedTuple

from megatron.core.pipeline_parallel import p2p_communication

MOST_MESSAGES: Final = 100_000


class SlowLink(NamedTuple):
    """A link between `stage` and the next stage that is slow in one direction.

    late_s : additional time until data arrive in slowed steps [s]
    """

    stage: int
    is_forward: bool
    late_s: float

    @property
    def sender(self) -> int:
        return self.stage if self.is_forward else self.stage + 1

    @property
    def receiver(self) -> int:
        return self.stage + 1 if self.is_forward else self.stage


def shared_times(dp_size: int) -> list[Any]:
    """Return shared memory for the times at which each replica sends; to be made before processes fork."""
    context = get_context("fork")
    return [context.Array("d", MOST_MESSAGES, lock=False) for _ in range(dp_size)]


def install(link: SlowLink, stage: int, sent_s: Any, is_slow: Callable[[], bool]) -> None:
    """Make this stage's receives over the slow link wait until the data would have arrived."""
    holder: Any = getattr(p2p_communication, "P2PCommunicator", p2p_communication)
    communicate = holder._communicate  # the function that makes all transfers
    sent, received = (
        ("tensor_send_next", "recv_prev") if link.is_forward else ("tensor_send_prev", "recv_next")
    )
    counts = {"sent": 0, "received": 0}

    @functools.wraps(communicate)
    def delayed(*args: Any, **what: Any) -> Any:
        if stage == link.sender and what[sent] is not None:
            sent_s[counts["sent"]] = time.monotonic()
            counts["sent"] += 1
        result = communicate(*args, **what)
        if stage == link.receiver and what[received]:
            until = sent_s[counts["received"]] + (link.late_s if is_slow() else 0.0)
            counts["received"] += 1
            time.sleep(max(until - time.monotonic(), 0.0))
        return result

    holder._communicate = delayed  # replaces the function above
