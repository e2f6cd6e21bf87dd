"""Op types as integers, in the order of `schemas.vocabulary.OP_TYPES`.

The kernel has no strings and imports nothing of the project, so that it can be used without the project; a
test compares the two lists.
"""

from typing import Final

FORWARD_COMPUTE: Final = 0
BACKWARD_COMPUTE: Final = 1
FORWARD_SEND: Final = 2
FORWARD_RECV: Final = 3
BACKWARD_SEND: Final = 4
BACKWARD_RECV: Final = 5
PARAMS_ALL_GATHER: Final = 6
GRADS_REDUCE_SCATTER: Final = 7
SEPARATE_GRADS_ALL_REDUCE: Final = 8
LAYERNORM_GRADS_ALL_REDUCE: Final = 9
EMBEDDING_GRADS_ALL_REDUCE: Final = 10
OPTIMIZER_CLIP_MAIN_GRAD: Final = 11
OPTIMIZER: Final = 12
GC: Final = 13
DATA_LOAD: Final = 14

COUNT: Final = 15

COMPUTE: Final = (FORWARD_COMPUTE, BACKWARD_COMPUTE)
TRANSFERS: Final = (FORWARD_SEND, FORWARD_RECV, BACKWARD_SEND, BACKWARD_RECV)
DIRECTIONS: Final = (
    (FORWARD_COMPUTE, FORWARD_SEND, FORWARD_RECV),
    (BACKWARD_COMPUTE, BACKWARD_SEND, BACKWARD_RECV),
)
"""Compute, send and recv of each direction."""
DP_STREAM: Final = (PARAMS_ALL_GATHER, GRADS_REDUCE_SCATTER)
MEETS_ACROSS_DP: Final = (
    PARAMS_ALL_GATHER,
    GRADS_REDUCE_SCATTER,
    SEPARATE_GRADS_ALL_REDUCE,
    OPTIMIZER_CLIP_MAIN_GRAD,
)
AVERAGED: Final = (FORWARD_COMPUTE, BACKWARD_COMPUTE, OPTIMIZER, GC, DATA_LOAD)
"""Types whose ideal is a mean; every other type is communication, whose ideal is a median."""
OPTIONAL: Final = (GC, LAYERNORM_GRADS_ALL_REDUCE, OPTIMIZER)
"""Local ops that some steps lack: no other op waits for them."""
OWN: Final = (OPTIMIZER, GC, LAYERNORM_GRADS_ALL_REDUCE, OPTIMIZER_CLIP_MAIN_GRAD)
"""Types in which a worker can be slow by itself; its time in a clip counts from the last worker's start."""
ENTERED: Final = frozenset({*MEETS_ACROSS_DP, OPTIMIZER, GC})
"""Types that a worker may enter late by its own slowness; before other types it waits for other ranks."""
TAIL: Final = (
    GC,
    LAYERNORM_GRADS_ALL_REDUCE,
    EMBEDDING_GRADS_ALL_REDUCE,
    OPTIMIZER_CLIP_MAIN_GRAD,
    OPTIMIZER,
)
"""Types of ops that follow the last compute and the last blocking transfer."""
