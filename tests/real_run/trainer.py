"""Code that the training scripts share: layers of fixed duration, and the loop over steps."""

import argparse
import os
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from multiprocessing import get_context
from typing import Any, Final

import torch
from processes import run_all
from straggler_emitter import Rank, RankLogWriter, Recorder, Run

WIDTH: Final = 16
FORWARD_S: Final = 0.1
"""Time of one microbatch in the forward of one stage [s]; a backward takes twice as long."""
WARM_UP: Final = 2
STEPS: Final = 16
SLOWED: Final = (1, 0)
"""(dp rank, stage) of the slowed worker."""

Step = Callable[[], None]


class _Timed(torch.autograd.Function):  # type: ignore[misc]  # torch is not in this environment
    """A linear map that sleeps until a fixed time has passed, so that other load hardly changes its time."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, weight: Any, seconds: float) -> Any:
        until = time.perf_counter() + seconds * TimedLayer.pace + TimedLayer.pause_now()
        ctx.seconds = seconds
        ctx.save_for_backward(tensor, weight)
        result = tensor @ weight.T
        _sleep(until)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, Any, None]:
        until = time.perf_counter() + 2 * ctx.seconds * TimedLayer.backward_pace
        tensor, weight = ctx.saved_tensors
        gradients = gradient @ weight, gradient.flatten(0, -2).T @ tensor.flatten(0, -2)
        _sleep(until)
        return *gradients, None


def _sleep(until: float) -> None:
    time.sleep(max(until - time.perf_counter(), 0))


class TimedLayer(torch.nn.Module):  # type: ignore[misc]  # torch is not in this environment
    """A linear layer whose forward takes `seconds` times `pace`, which is set for the process in each step.

    pause_s : additional time of one forward of the step [s]
    until : number of forwards before that one
    """

    pace = backward_pace = 1.0
    pause_s = 0.0
    until = 0
    is_odd = False

    @classmethod
    def pause_now(cls) -> float:
        cls.until -= 1
        return cls.pause_s if cls.until == -1 else 0.0

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.eye(WIDTH))
        self.seconds = seconds

    def forward(self, tensor: Any) -> Any:
        return _Timed.apply(tensor, self.weight, self.seconds)


def loss_function(output: Any, target: Any) -> Any:
    return ((output - target) ** 2).mean()


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    parser.add_argument("--landing")
    parser.add_argument("--job")
    parser.add_argument("--dp", type=int, default=3)
    parser.add_argument("--slow", type=float, default=1.0, help="factor of the slowed worker")
    parser.add_argument("--backward-alone", action="store_true", help="in backwards alone")
    parser.add_argument("--from-step", type=int, help="from this step on; else in every other step")
    parser.add_argument("--pause-s", type=float, default=0.0, help="in one forward of slowed steps")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--chunks", type=int, default=1)
    parser.add_argument("--microbatches", type=int, default=6)
    parser.add_argument("--forward-s", type=float, default=FORWARD_S)
    parser.add_argument("--port", type=int, default=29511)
    return parser


def train(
    options: argparse.Namespace, stages: int, build: Callable[[int, Recorder], Step], *, begins: bool = True
) -> None:
    """Train in processes that gloo connects; the worker SLOWED is slow in every other step.

    build  : makes the model of a stage, records it, and returns a function that trains one step
    begins : whether this loop begins steps in the recorder; otherwise hooks do
    """

    def run(rank: int) -> None:
        stage, dp_rank = divmod(rank, options.dp)
        sizes = {"dp_size": options.dp, "pp_size": stages, "vpp_size": options.chunks}
        place = Rank(rank, dp_rank, stage, host=f"host-{rank}")
        writer = RankLogWriter(options.landing, Run(options.job, "r0", **sizes), place)
        _join(rank, options.dp * stages, options.port)
        with Recorder(writer, every=WARM_UP + options.steps, burst=options.steps) as recorder:
            step = build(stage, recorder)
            for number in range(-WARM_UP, options.steps):
                is_slowed = bool(number % 2) if options.from_step is None else number >= options.from_step
                TimedLayer.is_odd = is_slowed
                _slow_down(options, number, is_slowed=is_slowed and (dp_rank, stage) == SLOWED)
                torch.distributed.barrier()
                with recorder.step(number) if begins else nullcontext():
                    step()
        torch.distributed.destroy_process_group()
        sys.stdout.flush()

    fork = get_context("fork")
    run_all([fork.Process(target=run, args=(rank,)) for rank in range(options.dp * stages)])


def _slow_down(options: argparse.Namespace, step: int, *, is_slowed: bool) -> None:
    """Set the factor by which this process's layers are slower in a step, and the pause of one layer."""
    TimedLayer.backward_pace = options.slow if is_slowed else 1.0
    TimedLayer.pace = 1.0 if options.backward_alone else TimedLayer.backward_pace
    TimedLayer.pause_s = options.pause_s if is_slowed else 0.0
    TimedLayer.until = step % options.microbatches


def _join(rank: int, world_size: int, port: int) -> None:
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    torch.distributed.init_process_group("gloo", rank=rank, world_size=world_size)
