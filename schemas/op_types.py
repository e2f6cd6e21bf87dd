"""Op types of rank logs, each declared once with all that tables and pages say about it.

Standard library only, as the vocabulary, whose names of op types come from here.
"""

from typing import Final, NamedTuple

FORWARD_PP_COMM: Final = "forward-pp-comm"
BACKWARD_PP_COMM: Final = "backward-pp-comm"


class OpType(NamedTuple):
    """An op type: its name in logs and tables, and what a training loop has to wrap to record it.

    around      : what of a step is recorded as this op
    microbatch, model_chunk : whether it has them, and of what
    counted_as  : name of the group that op_type_slowdown counts as one; empty: it counts by itself
    is_averaged : whether its ideal is a mean; communication's is a median
    """

    name: str
    around: str
    microbatch: str = "-"
    model_chunk: str = "-"
    counted_as: str = ""
    is_averaged: bool = False


_COMPUTE: Final = "the pass of one microbatch through one chunk"
_TRANSFER: Final = "each pipeline transfer, from the call until it has returned, **waiting included**"
_COLLECTIVE: Final = "each collective of the distributed optimizer"
_TAIL: Final = "once at the end of the step"

DECLARED: Final = (
    OpType("forward-compute", _COMPUTE, "yes", "yes", is_averaged=True),
    OpType("backward-compute", _COMPUTE, "yes", "yes", is_averaged=True),
    OpType("forward-send", _TRANSFER, counted_as=FORWARD_PP_COMM),
    OpType("forward-recv", _TRANSFER, counted_as=FORWARD_PP_COMM),
    OpType("backward-send", _TRANSFER, counted_as=BACKWARD_PP_COMM),
    OpType("backward-recv", _TRANSFER, counted_as=BACKWARD_PP_COMM),
    OpType("params-all-gather", _COLLECTIVE, model_chunk="yes"),
    OpType("grads-reduce-scatter", _COLLECTIVE, model_chunk="yes"),
    OpType(
        "separate-grads-all-reduce",
        "the reduction that remains after the backward, if others overlap with it",
    ),
    OpType("layernorm-grads-all-reduce", _TAIL),
    OpType("embedding-grads-all-reduce", _TAIL),
    OpType("optimizer-clip-main-grad", _TAIL),
    OpType("optimizer", _TAIL, is_averaged=True),
    OpType("gc", _TAIL, is_averaged=True),
    OpType(
        "data-load",
        "the loading of one microbatch on the host, wherever it runs; `recorder.loads` does it",
        "yes",
        "of the compute that needs it",
        is_averaged=True,
    ),
)
"""Positions are the codes that `rank_steps.op` stores, so that this may only ever grow at its end."""
