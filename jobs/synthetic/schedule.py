"""In which order a stage computes: 1F1B, and its interleaved form for virtual pipelines."""

from dataclasses import dataclass

from jobs.synthetic.shape import JobShape


@dataclass(frozen=True)
class Compute:
    """One pass of one microbatch through one chunk of a stage."""

    direction: str
    microbatch: int
    chunk: int


def compute_order(shape: JobShape, pp_rank: int) -> list[Compute]:
    """List the computes of a stage as scheduled: warm-up, one forward one backward, cool-down.

    Source: Narayanan et al., SC '21 (arXiv 2104.04473), section 2.2.
    """
    forwards = [Compute("forward", mb, chunk) for mb, chunk in _passes(shape)]
    backwards = [Compute("backward", mb, shape.vpp_size - 1 - chunk) for mb, chunk in _passes(shape)]
    behind = shape.pp_size - 1 - pp_rank
    if shape.vpp_size > 1:
        behind = 2 * behind + (shape.vpp_size - 1) * shape.pp_size
    warm_up = min(behind, len(forwards))
    order = forwards[:warm_up]
    for forward, backward in zip(forwards[warm_up:], backwards, strict=False):
        order += [forward, backward]
    return order + backwards[len(forwards) - warm_up :]


def _passes(shape: JobShape) -> list[tuple[int, int]]:
    """List (microbatch, chunk) of the forwards: pp_size microbatches through chunk 0, then chunk 1, ..."""
    group = shape.pp_size if shape.vpp_size > 1 else 1
    return [
        (first + place, chunk)
        for first in range(0, shape.microbatches, group)
        for chunk in range(shape.vpp_size)
        for place in range(group)
    ]
