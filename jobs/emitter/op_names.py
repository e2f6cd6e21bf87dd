"""Vocabulary of both log formats, because training images lack schemas.vocabulary; a test compares them."""

RANK_LOG_FORMAT = "rank-log/1"
RUN_EVENTS_FORMAT = "run-events/1"

OP_NAMES = (
    "forward-compute",
    "backward-compute",
    "forward-send",
    "forward-recv",
    "backward-send",
    "backward-recv",
    "params-all-gather",
    "grads-reduce-scatter",
    "separate-grads-all-reduce",
    "layernorm-grads-all-reduce",
    "embedding-grads-all-reduce",
    "optimizer-clip-main-grad",
    "optimizer",
    "gc",
    "data-load",
)
