"""A small model whose computes mostly sleep, so that many processes share few cores; and the processes."""

import os
import sys
import time
from collections.abc import Callable
from multiprocessing import get_context
from typing import Any, Final

import torch

WIDTH: Final = 16
FORWARD_S: Final = 0.05
"""Of one microbatch through one stage; a backward takes twice as long."""


class _Sleep(torch.autograd.Function):  # type: ignore[misc]  # torch is not in this environment
    """Passes tensors through; takes its time forward, and twice its time backward."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, seconds: float) -> Any:
        ctx.seconds = seconds
        time.sleep(seconds)
        return tensor.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, None]:
        time.sleep(2 * ctx.seconds)
        return gradient, None


class SleepingLayer(torch.nn.Module):  # type: ignore[misc]  # torch is not in this environment
    """A linear layer that takes `seconds` forward."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(WIDTH, WIDTH)
        self.seconds = seconds

    def forward(self, tensor: Any) -> Any:
        return _Sleep.apply(torch.tanh(self.linear(tensor)), self.seconds)


def run_processes(world_size: int, port: int, train: Callable[[int], None]) -> None:
    """Run `train(rank)` in so many processes joined by gloo; raises RuntimeError if one fails."""
    fork = get_context("fork")
    workers = [
        fork.Process(target=_joined, args=(rank, world_size, port, train)) for rank in range(world_size)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if any(worker.exitcode for worker in workers):
        raise RuntimeError(f"exit codes {[worker.exitcode for worker in workers]}")


def _joined(rank: int, world_size: int, port: int, train: Callable[[int], None]) -> None:
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    torch.distributed.init_process_group("gloo", rank=rank, world_size=world_size)
    torch.manual_seed(7)
    train(rank)
    torch.distributed.destroy_process_group()
    sys.stdout.flush()
