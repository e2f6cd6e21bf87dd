"""Trains by torch.distributed.pipelining, dp x 2 stages, or by DDP alone, and logs by the emitter's hooks."""

import argparse
from functools import partial
from typing import Any

import torch
from sleeping import FORWARD_S, WIDTH, SleepingLayer, run_processes
from straggler_emitter import Rank, RankLogWriter, Recorder, Run
from straggler_emitter.data_parallel import follow_ddp
from straggler_emitter.pipelining import follow_schedule
from torch.distributed import pipelining

MICROBATCHES, WARM_UP, STEPS, STAGES = 6, 2, 12, 2


def loss_function(output: Any, target: Any) -> Any:
    return ((output - target) ** 2).mean()


def train_pipeline(options: argparse.Namespace, recorder: Recorder, stage: int) -> None:
    """Run 1F1B, or interleaved 1F1B where there are several chunks, and reduce gradients at the end."""
    mesh = torch.distributed.init_device_mesh("cpu", (STAGES, options.dp), mesh_dim_names=("pp", "dp"))
    group, replicas = mesh["pp"].get_group(), mesh["dp"].get_group()
    layers = [SleepingLayer(options.seconds / options.chunks) for _ in range(options.chunks)]
    stages = [
        pipelining.PipelineStage(
            layer,
            STAGES * chunk + stage,
            STAGES * options.chunks,
            torch.device("cpu"),
            group=group,
        )
        for chunk, layer in enumerate(layers)
    ]
    if options.chunks > 1:
        schedule = pipelining.ScheduleInterleaved1F1B(stages, MICROBATCHES, loss_function)
    else:
        schedule = pipelining.Schedule1F1B(stages[0], MICROBATCHES, loss_function)
    follow_schedule(schedule, recorder)
    parameters = [parameter for layer in layers for parameter in layer.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.01)
    batch = torch.ones(MICROBATCHES, WIDTH)
    for number in range(-WARM_UP, STEPS):
        torch.distributed.barrier()
        with recorder.step(number):
            schedule.step(*([batch] if stage == 0 else []), **({"target": batch} if stage else {}))
            with recorder.op("grads-reduce-scatter"):
                flat = torch.cat([parameter.grad.flatten() for parameter in parameters])
                torch.distributed.all_reduce(flat, group=replicas)
            with recorder.op("optimizer"):
                optimizer.step()
                optimizer.zero_grad()


def train_ddp(options: argparse.Namespace, recorder: Recorder) -> None:
    """Accumulate the gradients of some microbatches, and reduce them with the last one's."""
    layers = torch.nn.Sequential(*(SleepingLayer(options.seconds / 2) for _ in range(2)))
    model = torch.nn.parallel.DistributedDataParallel(layers)
    follow_ddp(model, recorder)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.ones(1, WIDTH, requires_grad=True)
    for number in range(-WARM_UP, STEPS):
        with recorder.step(number):
            with model.no_sync():
                for _ in range(MICROBATCHES - 1):
                    loss_function(model(batch), batch).backward()
            loss_function(model(batch), batch).backward()
            with recorder.op("optimizer"):
                optimizer.step()
                optimizer.zero_grad()


def train(options: argparse.Namespace, number: int) -> None:
    stage, dp_rank = divmod(number, options.dp)
    options.seconds = FORWARD_S * (options.slow if (dp_rank, stage) == (1, 0) else 1)
    sizes = {"dp_size": options.dp, "pp_size": 1 if options.ddp else STAGES, "vpp_size": options.chunks}
    writer = RankLogWriter(
        options.landing,
        Run(options.job, "r0", **sizes),
        Rank(number, dp_rank, stage, host=f"host-{number}"),
    )
    with Recorder(writer, every=WARM_UP + STEPS, burst=STEPS) as recorder:
        if options.ddp:
            train_ddp(options, recorder)
        else:
            train_pipeline(options, recorder, stage)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--landing")
    parser.add_argument("--job")
    parser.add_argument("--dp", type=int, default=3)
    parser.add_argument("--slow", type=float, default=1.0)
    parser.add_argument("--chunks", type=int, default=1)
    parser.add_argument("--ddp", action="store_true")
    parser.add_argument("--port", type=int, default=29512)
    chosen = parser.parse_args()
    run_processes(chosen.dp * (1 if chosen.ddp else STAGES), chosen.port, partial(train, chosen))
