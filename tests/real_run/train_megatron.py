"""Trains through Megatron-core's own schedules on CPUs, and logs through its timers."""

import argparse
from functools import partial
from typing import Any

import torch
from megatron.core import parallel_state
from megatron.core.distributed.finalize_model_grads import finalize_model_grads
from megatron.core.enums import ModelType
from megatron.core.pipeline_parallel import schedules
from megatron.core.transformer.transformer_config import TransformerConfig
from sleeping import FORWARD_S, WIDTH, SleepingLayer, run_processes
from straggler_emitter import Rank, RankLogWriter, Recorder, Run
from straggler_emitter.megatron import RankLogTimers

MICROBATCHES, SAMPLES = 6, 4
WARM_UP, STEPS = 2, 12


def on_cpus() -> None:
    """Let Megatron's schedules run without a GPU: of CUDA they ask where to put tensors, and to wait."""
    zeros = torch.zeros

    def zeros_here(*size: Any, **how: Any) -> Any:
        return zeros(*size, **{**how, "device": "cpu"})

    torch.zeros = zeros_here
    torch.cuda.current_device = lambda: "cpu"
    torch.cuda.synchronize = lambda *_: None


class Chunk(torch.nn.Module):  # type: ignore[misc]  # torch is not in this environment
    """One model chunk, with what Megatron's schedules and finalize_model_grads ask of one."""

    def __init__(self, config: Any, seconds: float, dp_group: Any) -> None:
        super().__init__()
        self.config, self.dp_group = config, dp_group
        self.input: Any = None
        self.layer = SleepingLayer(seconds)
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


def train(options: argparse.Namespace, number: int) -> None:
    on_cpus()
    chunks = options.chunks
    parallel_state.initialize_model_parallel(
        pipeline_model_parallel_size=2, virtual_pipeline_model_parallel_size=chunks if chunks > 1 else None
    )
    pp_rank = parallel_state.get_pipeline_model_parallel_rank()
    dp_rank = parallel_state.get_data_parallel_rank()
    config = TransformerConfig(
        num_layers=2 * chunks,
        hidden_size=WIDTH,
        num_attention_heads=1,
        pipeline_model_parallel_size=2,
        virtual_pipeline_model_parallel_size=chunks if chunks > 1 else None,
        pipeline_dtype=torch.float32,
        overlap_p2p_comm=options.overlap,
        overlap_p2p_comm_warmup_flush=options.overlap,
        batch_p2p_comm=not options.overlap,
        batch_p2p_sync=False,
    )
    config.finalize_model_grads_func = finalize_model_grads
    seconds = FORWARD_S / chunks * (options.slow if (dp_rank, pp_rank) == (1, 0) else 1)
    model = [Chunk(config, seconds, parallel_state.get_data_parallel_group()) for _ in range(chunks)]
    optimizer = torch.optim.SGD([p for chunk in model for p in chunk.parameters()], lr=0.01)

    run = Run(options.job, "r0", dp_size=options.dp, pp_size=2, vpp_size=chunks)
    writer = RankLogWriter(options.landing, run, Rank(number, dp_rank, pp_rank, host=f"host-{number}"))
    with Recorder(writer, every=WARM_UP + STEPS, burst=STEPS) as recorder:
        timers = RankLogTimers(config.timers, recorder, first_step=-WARM_UP)
        timers.install(config)
        for _ in range(WARM_UP + STEPS):
            batches = [iter([torch.ones(SAMPLES, 1, WIDTH)] * MICROBATCHES) for _ in model]
            schedules.get_forward_backward_func()(
                forward_step_func=forward_step,
                data_iterator=batches if chunks > 1 else batches[0],
                model=model if chunks > 1 else model[0],
                num_microbatches=MICROBATCHES,
                seq_length=SAMPLES,
                micro_batch_size=1,
            )
            timers("optimizer", log_level=1).start(barrier=True)
            timers("optimizer-clip-main-grad", log_level=1).start(barrier=True)
            norm = torch.stack([p.grad.norm() ** 2 for chunk in model for p in chunk.parameters()]).sum()
            torch.distributed.all_reduce(norm)
            timers("optimizer-clip-main-grad").stop()
            optimizer.step()
            optimizer.zero_grad()
            timers("optimizer").stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--landing")
    parser.add_argument("--job")
    parser.add_argument("--dp", type=int, default=3)
    parser.add_argument("--slow", type=float, default=1.0)
    parser.add_argument("--chunks", type=int, default=1)
    parser.add_argument("--overlap", action="store_true")
    parser.add_argument("--port", type=int, default=29511)
    chosen = parser.parse_args()
    run_processes(2 * chosen.dp, chosen.port, partial(train, chosen))
