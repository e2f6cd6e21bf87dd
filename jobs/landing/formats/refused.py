"""Common logs that cannot be replayed, recognised by content and refused with the tool's name."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn

from jobs.landing.formats.foreign import RefusalError, SourceFile
from jobs.landing.formats.rows import Bounds

_HEAD_BYTES: Final = 64 << 10
_SPANS: Final = (
    "Record single ops: with MegaScan's trace, with ndtimeline, with torch.profiler on every rank, or as "
    "rank logs by straggler_emitter (jobs/emitter/README.md)"
)
_WRITER: Final = "Record single ops as rank logs by straggler_emitter (jobs/emitter/README.md)"


class _Tool(NamedTuple):
    """A tool whose logs are refused: how its logs are recognised, and why they cannot be replayed."""

    name: str
    sign: bytes
    reason: str
    instead: str = _SPANS


_TOOLS: Final = (
    _Tool(
        "PyTorch Flight Recorder",
        rb'(?s)\A\x80[\x02-\x05].*(?:nccl_version|comm_lib_version|pg_config|pg_status)|"nccl_version".*"entries"',
        "only the host's calls of collectives, no computes; a pickle may run code: it is not opened",
    ),
    _Tool("a pickle", rb"\A\x80[\x02-\x05]", "a pickle may run code: it is not opened", "Write JSON instead"),
    _Tool(
        "Megatron's OpenTelemetry spans",
        rb'"(?:resourceSpans|resource_spans|startTimeUnixNano|start_time_unix_nano)"|SpanKind\.',
        "spans in the time of the host, which does not wait for the GPU",
    ),
    _Tool(
        "Megatron's timers",
        rb"elapsed time per iteration \(ms\)|time across ranks \(ms\)",
        "sums over an iteration, least and greatest over ranks, instead of single ops",
    ),
    _Tool(
        "Ascend's profiler (torch_npu, msprof)",
        rb'"Ascend Hardware"|"Overlap Analysis"|"AscendCL@|"CANN"|"torch_npu_version"|"cann_version"',
        "kernels of NPUs, whose launches and collectives (HCCL) have names that are not read",
        _WRITER,
    ),
    _Tool(
        "a Chakra execution trace",
        rb'"schema"\s*:\s*"\d[\w.-]*"[\s\S]*"nodes"\s*:|\A[\s\S]{1,2}\n[\x05-\x0f]\d+\.\d+\.\d+',
        "operators and their dependencies, without the times of kernels",
        "Record torch.profiler on every rank beside it",
    ),
    _Tool(
        "rocprof",
        rb'"rocprofiler-sdk-tool"|"BeginNs"\s*:',
        "kernels of one process, without the steps of the training and without groups of collectives",
        "Record torch.profiler on every rank: its traces of ROCm are read",
    ),
    _Tool("Megatron's StragglerDetector", rb"MnRtt/Rnk|MxRtt/Rnk", "scores of ranks instead of single ops"),
    _Tool(
        "NVIDIA Resiliency Extension",
        rb"STRAGGLER DETECTION WARNING|GPUs? (?:relative|individual) perf(?:ormance| scores):",
        "scores of ranks instead of single ops",
    ),
    _Tool(
        "DeepSpeed's wall clock breakdown",
        rb"\b(?:fwd|bwd|bwd_inner|bwd_allreduce|step)_microstep: |time \(ms\) \| (?:fwd|forward|optimizer)",
        "sums over a step instead of single ops",
    ),
)
"""The first tool whose pattern (`sign`) occurs in a log names the log."""


def recognises(head: bytes) -> bool:
    """Return whether the file comes from one of these tools."""
    return _tool(head) is not None


def read(files: Sequence[SourceFile], manifest: Mapping[str, Any], bounds: Bounds) -> NoReturn:  # noqa: ARG001  # as every format
    """Raise RefusalError with the tool's name and reason."""
    with files[0].opened() as content:
        found = _tool(content.read(_HEAD_BYTES)) or _TOOLS[0]
    raise RefusalError(found.name, found.reason, found.instead)


def _tool(head: bytes) -> _Tool | None:
    return next((tool for tool in _TOOLS if re.search(tool.sign, head)), None)
