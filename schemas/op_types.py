"""Op types of rank logs, each declared once with all texts about it that tables and pages contain.

This module imports only the standard library, because schemas.vocabulary, which training jobs import, takes
the names of op types from here.
"""

from typing import Final, NamedTuple

FORWARD_PP_COMM: Final = "forward-pp-comm"
BACKWARD_PP_COMM: Final = "backward-pp-comm"


class OpType(NamedTuple):
    """An op type: its name in logs and tables, and which calls a training loop has to wrap to record it.

    around      : which part of a step the training loop records as this op
    microbatch, model_chunk : whether the op has this field, `-`: no
    counted_as  : name under which op_type_slowdown counts several op types as one; empty: its own name
    is_averaged : whether its ideal duration is the mean of recorded durations; else it is the median
    """

    name: str
    around: str
    microbatch: str = "-"
    model_chunk: str = "-"
    counted_as: str = ""
    is_averaged: bool = False


_COMPUTE: Final = "the pass of one microbatch through one chunk"
_TRANSFER: Final = "each pipeline transfer, from the call to its return, **waiting included**"
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
        "the gradient reduction that remains after the backward, if other reductions overlap the backward",
    ),
    OpType("layernorm-grads-all-reduce", _TAIL),
    OpType("embedding-grads-all-reduce", _TAIL),
    OpType("optimizer-clip-main-grad", _TAIL),
    OpType("optimizer", _TAIL, is_averaged=True),
    OpType("gc", _TAIL, is_averaged=True),
    OpType(
        "data-load",
        "the loading of one microbatch on the host, in any thread or process; `recorder.loads` records it",
        "yes",
        "of the compute that needs it",
        is_averaged=True,
    ),
)
"""The positions are the codes that `rank_steps.op` stores, so new op types may only be added at the end."""
