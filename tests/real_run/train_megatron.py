"""Train on CPUs by the schedules of Megatron-core, and log ops by Megatron's timers."""

import argparse
from functools import partial
from typing import Any

import torch
from megatron.core import parallel_state
from megatron.core.distributed.finalize_model_grads import finalize_model_grads
from megatron.core.enums import ModelType
from megatron.core.pipeline_parallel import schedules
from megatron.core.transformer.transformer_config import TransformerConfig
from slow_link import SlowLink, install, shared_times
from straggler_emitter import Recorder
from straggler_emitter.megatron import RankLogTimers
from trainer import WARM_UP, WIDTH, Step, TimedLayer, arguments, train

SAMPLES = 4


def on_cpus() -> None:
    """Let Megatron's schedules run without a GPU, which they need only to place tensors and synchronise."""
    zeros = torch.zeros

    def zeros_here(*size: Any, **how: Any) -> Any:
        return zeros(*size, **{**how, "device": "cpu"})

    torch.zeros = zeros_here
    torch.cuda.current_device = lambda: "cpu"
    torch.cuda.synchronize = lambda *_: None


class Chunk(torch.nn.Module):  # type: ignore[misc]  # torch is not in this environment
    """A model chunk with the interface that Megatron's schedules and finalize_model_grads expect."""

    def __init__(self, config: Any, seconds: float, dp_group: Any) -> None:
        super().__init__()
        self.config, self.dp_group = config, dp_group
        self.input: Any = None
        self.layer = TimedLayer(seconds)
        self.model_type = ModelType.encoder_or_decoder
        self.share_embeddings_and_output_weights = False
        self.ddp_config = argparse.Namespace(use_megatron_fsdp=False)

    def set_input_tensor(self, tensors: list[Any]) -> None:
        self.input = tensors[0]

    def forward(self, batch: Any) -> Any:
        return self.layer(batch if self.input is None else self.input)

    def finish_grad_sync(self, **_: object) -> None:
        gradients = [parameter.grad for parameter in self.parameters()]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        torch.distributed.all_reduce(flat, group=self.dp_group)

    @property
    def pre_process(self) -> bool:
        return False


def forward_step(batches: Any, model: Any) -> tuple[Any, Any]:
    output = model(next(batches))
    return output, lambda tensor: ((tensor**2).mean(), {"loss": (tensor**2).mean().detach()})


def build(options: argparse.Namespace, sent_s: list[Any], stage: int, recorder: Recorder) -> Step:
    """Make the model chunks of a stage; return a function that trains one step, which timers record.

    sent_s : shared memory for the times at which each replica sends
    """
    on_cpus()
    if options.link is not None:
        link = SlowLink(options.link, options.link_forward, options.link_ms / 1000)
        install(link, stage, sent_s[torch.distributed.get_rank() % options.dp], lambda: TimedLayer.is_odd)
    chunks = options.chunks
    virtual_size = chunks if chunks > 1 else None
    parallel_state.initialize_model_parallel(
        pipeline_model_parallel_size=options.stages, virtual_pipeline_model_parallel_size=virtual_size
    )
    config = TransformerConfig(
        num_layers=options.stages * chunks,
        hidden_size=WIDTH,
        num_attention_heads=1,
        pipeline_model_parallel_size=options.stages,
        virtual_pipeline_model_parallel_size=virtual_size,
        pipeline_dtype=torch.float32,
        overlap_p2p_comm=options.overlap,
        overlap_p2p_comm_warmup_flush=options.overlap,
        batch_p2p_comm=not options.overlap,
        batch_p2p_sync=False,
    )
    config.finalize_model_grads_func = finalize_model_grads
    replicas = parallel_state.get_data_parallel_group()
    model = [Chunk(config, options.forward_s / chunks, replicas) for _ in range(chunks)]
    parameters = [parameter for chunk in model for parameter in chunk.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.01)
    timers = RankLogTimers(config.timers, recorder, first_step=-WARM_UP)
    timers.install(config)

    def step() -> None:
        batches = [iter([torch.ones(SAMPLES, 1, WIDTH)] * options.microbatches) for _ in model]
        schedules.get_forward_backward_func()(
            forward_step_func=forward_step,
            data_iterator=batches if chunks > 1 else batches[0],
            model=model if chunks > 1 else model[0],
            num_microbatches=options.microbatches,
            seq_length=SAMPLES,
            micro_batch_size=1,
        )
        timers("optimizer", log_level=1).start(barrier=True)
        timers("optimizer-clip-main-grad", log_level=1).start(barrier=True)
        norm = torch.stack([parameter.grad.norm() ** 2 for parameter in parameters]).sum()
        torch.distributed.all_reduce(norm)
        timers("optimizer-clip-main-grad").stop()
        optimizer.step()
        optimizer.zero_grad()
        timers("optimizer").stop()

    return step


if __name__ == "__main__":
    parser = arguments()
    parser.add_argument("--overlap", action="store_true")
    parser.add_argument("--stages", type=int, default=2)
    parser.add_argument("--link", type=int, help="the stage before a link that is slow in every other step")
    parser.add_argument("--link-ms", type=float, default=0.0)
    parser.add_argument("--link-forward", action="store_true", help="forward only; else backward only")
    chosen = parser.parse_args()
    train(chosen, chosen.stages, partial(build, chosen, shared_times(chosen.dp)), begins=False)
