"""Train by torch.distributed.pipelining (dp x 2 stages), by DDP or by FSDP2, and log ops by hooks."""

import argparse
from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from straggler_emitter import Recorder
from straggler_emitter.data_parallel import follow_ddp
from straggler_emitter.fully_sharded import follow_fsdp
from straggler_emitter.pipelining import follow_schedule
from torch.distributed import pipelining
from torch.distributed.fsdp import fully_shard
from trainer import FORWARD_S, WIDTH, Step, TimedLayer, arguments, loss_function, train

STAGES = 2


def build_pipeline(options: argparse.Namespace, stage: int, recorder: Recorder) -> Step:
    """Return a function that trains one step by 1F1B, interleaved if there are several chunks.

    Gradients are reduced at the end of the step.
    """
    mesh = torch.distributed.init_device_mesh("cpu", (STAGES, options.dp), mesh_dim_names=("pp", "dp"))
    group, replicas = mesh["pp"].get_group(), mesh["dp"].get_group()
    layers = [TimedLayer(FORWARD_S / options.chunks) for _ in range(options.chunks)]
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
        schedule = pipelining.ScheduleInterleaved1F1B(stages, options.microbatches, loss_function)
    else:
        schedule = pipelining.Schedule1F1B(stages[0], options.microbatches, loss_function)
    follow_schedule(schedule, recorder)
    parameters = [parameter for layer in layers for parameter in layer.parameters()]
    update = optimizer_of(parameters, recorder)
    batch = torch.ones(options.microbatches, WIDTH)

    def step() -> None:
        schedule.step(*([batch] if stage == 0 else []), **({"target": batch} if stage else {}))
        with recorder.op("grads-reduce-scatter"):
            flat = torch.cat([parameter.grad.flatten() for parameter in parameters])
            torch.distributed.all_reduce(flat, group=replicas)
        update()

    return step


def build_replica(options: argparse.Namespace, _stage: int, recorder: Recorder) -> Step:
    """Return a function that trains one step by DDP or FSDP2.

    Gradients of several microbatches are accumulated, and reduced after the last one.
    """
    seconds = 6 * FORWARD_S / options.microbatches  # long, as gloo's collectives do not overlap
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), *(TimedLayer(seconds) for _ in range(2)))
    if options.fsdp:
        mesh = torch.distributed.init_device_mesh("cpu", (options.dp,))
        for module in (*model[1:], model):
            fully_shard(module, mesh=mesh).set_force_sum_reduction_for_comms(
                enable=True
            )  # gloo cannot average
        follow_fsdp(model, recorder)
        reduces = model.set_requires_gradient_sync
    else:
        model = torch.nn.parallel.DistributedDataParallel(model)
        follow_ddp(model, recorder)
        reduces = partial(setattr, model, "require_backward_grad_sync")
    update = optimizer_of(model.parameters(), recorder)
    batch = torch.ones(1, WIDTH)

    def step() -> None:
        for microbatch in range(options.microbatches):
            reduces(microbatch == options.microbatches - 1)
            loss_function(model(batch), batch).backward()
        update()

    return step


def optimizer_of(parameters: Iterable[Any], recorder: Recorder) -> Step:
    """Make an optimizer, and return a function that runs and records its step."""
    optimizer = torch.optim.SGD(parameters, lr=0.01)

    def update() -> None:
        with recorder.op("optimizer"):
            optimizer.step()
            optimizer.zero_grad()

    return update


if __name__ == "__main__":
    parser = arguments()
    parser.add_argument("--ddp", action="store_true")
    parser.add_argument("--fsdp", action="store_true")
    chosen = parser.parse_args()
    alone = chosen.ddp or chosen.fsdp
    train(chosen, 1 if alone else STAGES, partial(build_replica if alone else build_pipeline, chosen))
