"""Wrappers of Megatron functions that reveal what timers do not: microbatch, chunk and transfers."""

import functools
import importlib
from collections.abc import Callable
from typing import Any

REQUESTS = {
    "send_next": "forward-send",
    "recv_prev": "forward-recv",
    "send_prev": "backward-send",
    "recv_next": "backward-recv",
}
"""What Megatron calls the requests of transfers that it does not wait for at once."""
REFUSED = {
    "overlap_moe_expert_parallel_comm": "combined 1F1B interleaves a forward and a backward in one compute",
    "hybrid_context_parallel": "its ranks run different microbatches",
}


def refusal(config: Any) -> str | None:
    """Reason why jobs with this config cannot be replayed; None if they can."""
    for name, reason in REFUSED.items():
        if getattr(config, name, False):
            return f"{name}: {reason}"
    graphs = f"{getattr(config, 'cuda_graph_impl', '')} {getattr(config, 'cuda_graph_scope', '')}"
    if "full_iteration" in graphs:
        return "full-iteration CUDA graphs call no timers"
    return None


def waits_for_transfers(config: Any) -> bool:
    """Whether a stage waits for each transfer before it continues; False where some may overlap."""
    has_pipeline = getattr(config, "pipeline_model_parallel_size", 1) > 1
    return has_pipeline and getattr(config, "overlap_p2p_comm", None) is False


def is_tied(model: Any) -> bool:
    """Whether first and last stage share the embedding, and so reduce its gradients together."""
    while hasattr(model, "module"):
        model = model.module
    return bool(getattr(model, "share_embeddings_and_output_weights", False))


def follow_microbatches(timers: Any) -> None:
    """Wrap the functions that run one microbatch through one chunk, to inform the timers."""
    schedules: Any = importlib.import_module("megatron.core.pipeline_parallel.schedules")
    forward, backward = schedules.forward_step, schedules.backward_step

    @functools.wraps(forward)
    def forward_step(step_function: Any, data_iterator: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
        chunk, microbatch = timers.next_microbatch(model)
        timers.computes(chunk, microbatch)
        if data_iterator is not None:
            data_iterator = timers.recorder.loads(data_iterator, microbatch=microbatch, model_chunk=chunk)
        result = forward(step_function, data_iterator, model, *args, **kwargs)
        timers.forwarded(result[0])
        return result

    @functools.wraps(backward)
    def backward_step(input_tensor: Any, output_tensor: Any, *args: Any, **kwargs: Any) -> Any:
        timers.goes_back(output_tensor)
        return backward(input_tensor, output_tensor, *args, **kwargs)

    schedules.forward_step, schedules.backward_step = forward_step, backward_step


def follow_transfers(timers: Any) -> None:
    """Wrap the function that makes all transfers: a method since core 0.14."""
    module = importlib.import_module("megatron.core.pipeline_parallel.p2p_communication")
    holder: Any = getattr(module, "P2PCommunicator", module)
    communicate: Callable[..., Any] = holder._communicate  # noqa: SLF001  # what all its callers go through

    @functools.wraps(communicate)
    def followed(*args: Any, **kwargs: Any) -> Any:
        result = communicate(*args, **kwargs)
        timers.moves(result[-1], **kwargs)
        return result

    holder._communicate = followed  # noqa: SLF001  # the same
