"""Convert torch.profiler (Kineto) traces, one file per rank and window, to rows of rank_steps.

kineto.md, beside this file, says how ops are found and what is left out.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from jobs.landing.formats.arrivals import Arrivals, Attendance
from jobs.landing.formats.foreign import ForeignRun, Part, RefusalError, SourceFile, count
from jobs.landing.formats.kineto_ops import dp_ops, step_of
from jobs.landing.formats.kineto_place import Place, completed, place_of, ranks_of, refusal
from jobs.landing.formats.kineto_pp import actions_of, pp_ops
from jobs.landing.formats.kineto_trace import SEND_RECV, RankTrace, read_rank
from jobs.landing.formats.rows import LISTS, NO_ROWS, SCALARS, Bounds, FileError, Reject, Rows
from schemas.vocabulary import KINETO_DATA_PARALLEL, KINETO_PIPELINE, Reason, Transfers

_EVENTS: Final = b'"traceEvents"'
_OWN: Final = (b'"schemaVersion"', b'"cpu_op"', b'"cuda_runtime"', b'"user_annotation"')


class _OneFile(NamedTuple):
    """Rows of one file, and the facts about the run that the file states."""

    part: Part
    place: Place
    chunks: int
    is_pipeline: bool


def recognises(head: bytes) -> bool:
    """Return whether a file with this head is a torch.profiler trace."""
    is_object = head.lstrip().startswith(b"{")
    return is_object and (_OWN[0] in head or (_EVENTS in head and any(each in head for each in _OWN)))


def read(files: Sequence[SourceFile], manifest: Mapping[str, Any], bounds: Bounds) -> ForeignRun:
    """Return a run made of these traces; iterating over its `parts` reads the files after the first.

    The first complete file is read at once, because it states the layout of the run. The other files are read
    when `parts` is iterated: one that cannot be replayed becomes a reject, and one with another layout raises
    RefusalError for the whole run.
    """
    reader = _Reader(manifest, Arrivals(bounds.trace_ops))
    done: list[Part] = []
    for number, file in enumerate(files):
        try:
            first = reader.read(file)
        except FileError as error:
            if number == len(files) - 1:
                raise
            done.append(Part(file.name, NO_ROWS, [error.reject]))
            continue
        break
    else:
        raise refusal("no trace was found", "Record every rank")

    def parts() -> Iterator[Part]:
        yield from done
        yield first.part
        for file in files[len(done) + 1 :]:
            try:
                found = reader.read(file)
            except FileError as error:
                yield Part(file.name, NO_ROWS, [error.reject])
            except RefusalError as error:
                yield Part(file.name, NO_ROWS, [Reject(Reason.UNREADABLE_FILE, str(error))])
            else:
                _refuse_other_layout(first, found)
                yield found.part

    return ForeignRun(
        source_format=KINETO_PIPELINE if first.is_pipeline else KINETO_DATA_PARALLEL,
        manifest={**first.place.manifest(), "vpp_size": first.chunks},
        parts=parts(),
        transfers=Transfers.MEASURED,
        left_out=reader.left_out,
        arrivals=reader.arrivals,
    )


def read_arrivals(file: SourceFile, found: Arrivals) -> None:
    """Add the collectives of a file to `found`. Raises FileError if the file is truncated."""
    _add_arrivals(_read(file, {}), found)


def _read(file: SourceFile, manifest: Mapping[str, Any]) -> RankTrace:
    with file.opened() as opened:
        trace = read_rank(opened)
    return trace._replace(distributed=completed(trace.distributed, file.name, manifest))


def _refuse_other_layout(first: _OneFile, other: _OneFile) -> None:
    layouts = [each.place.manifest() for each in (first, other)]
    if layouts[0] != layouts[1]:
        sizes = ["; ".join(f"{name} {size}" for name, size in layout.items()) for layout in layouts]
        raise refusal(
            f"traces of different jobs: {first.part.name} has {sizes[0]}, {other.part.name} has {sizes[1]}",
            "Put the traces of one run into a separate run folder",
        )


class _Reader:
    """Reader of the files of one run; its counts are complete once all files are read."""

    def __init__(self, manifest: Mapping[str, Any], arrivals: Arrivals) -> None:
        self._manifest = manifest
        # (step, pp, cp and tp rank) -> keys of the collectives of the first rank that was read there.
        self._meetings: dict[tuple[int, ...], tuple[object, ...]] = {}
        self.arrivals = arrivals
        self.left_out: Counter[str] = Counter()

    def read(self, file: SourceFile) -> _OneFile:
        """Read one file. Raises FileError or RefusalError if the file cannot be used."""
        trace = _read(file, self._manifest)
        place = place_of(trace.distributed, self._manifest)
        _refuse(trace, place)
        _add_arrivals(trace, self.arrivals)
        count(self.left_out, "kernels without a launch", trace.lost)
        outside = int((trace.computes.step < 0).sum() + (trace.communications.step < 0).sum())
        count(self.left_out, "kernels outside of steps", outside)
        records, rejects, chunks = [], [], 1
        peers = [place.coordinates[axis] for axis in ("pp", "cp", "tp")]
        actions = actions_of(trace.actions, place) if trace.actions else None
        for position, number in enumerate(trace.steps):
            step = step_of(trace, position)
            if actions is None:
                found = dp_ops(step, place, self.left_out)
            else:
                found = pp_ops(step, place, actions, int(actions.chunk.max()) + 1, self.left_out)
            if found is None:
                count(self.left_out, "steps without a whole pass", 1)
                continue
            # The simulation takes the k-th collectives of all dp ranks for the same collective. If a rank
            # lacks one, all its later collectives would be matched with the wrong ones.
            own, first = found.keys, self._meetings.setdefault((number, *peers), found.keys)
            if own and first and own != first:
                lacking, beyond = len(set(first) - set(own)), len(set(own) - set(first))
                missing = f"{lacking} collectives of another rank are missing"
                detail = f"rank {place.rank}, step {number}: {missing}, {beyond} have no counterpart there"
                rejects.append(Reject(Reason.MISSING_FIELD, detail))
                continue
            chunks = max(chunks, found.chunks)
            ops = found.ops
            zero_us = int(np.floor(ops.start_us[0]))  # an integer, so that times lose no digits
            known = dict.fromkeys(SCALARS) | place.row()
            known |= {"step": number, "gpu": trace.gpu, "t0_us": trace.base_us + zero_us}
            lists = (ops.op, ops.start_us - zero_us, ops.duration_us, ops.microbatch, ops.model_chunk)
            records.append(known | dict(zip(LISTS, lists, strict=True)))
        rows = Rows.of(records, range(1, len(records) + 1)) if records else NO_ROWS
        return _OneFile(Part(file.name, rows, rejects), place, chunks, bool(trace.actions))


def _refuse(trace: RankTrace, place: Place) -> None:
    if not trace.steps:
        raise refusal(
            "no ProfilerStep: it is unknown where a step begins", "Call prof.step() after each step"
        )
    if not len(trace.computes.start_us):
        instead = "Record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]"
        raise refusal("no kernel with its launch: one of CPU and CUDA was not recorded", instead)
    if place.sizes["pp"] > 1 and not trace.actions:
        raise refusal(
            "a pipeline without PP: annotations: its microbatches are unknown",
            "Record a schedule of torch.distributed.pipelining that runs by _PipelineScheduleRuntime",
        )
    if not trace.actions and not trace.computes.is_backward.any():
        raise refusal(
            "no backward pass: no kernel was launched by a thread of autograd",
            "Record without CUDA graphs of whole iterations, with ProfilerActivity.CPU",
        )


def _add_arrivals(trace: RankTrace, found: Arrivals) -> None:
    """Add one rank's collectives to `found`; ranks are numbered as in the job.

    A collective is recognised on other ranks by its group and Seq, or by its Comms Id. If the profiler wrote
    neither, the k-th of a kind and group in a step is taken for the k-th on other ranks. A rank's time in a
    collective is that of its NCCL kernel, which runs until all ranks have come and the collective is done.
    """
    about = trace.distributed
    if about.rank is None:
        return
    first_ranks: dict[str | None, int] = {
        name: ranks[0]
        for group in about.pg_config or ()
        if (ranks := ranks_of(group))
        for name in (group.pg_desc, group.pg_name)
        if isinstance(name, str)
    }
    order: Counter[tuple[Any, ...]] = Counter()
    for place, collective in enumerate(trace.collectives):
        step = trace.communications.step[place]
        # Without group and pipeline a send-recv is an all-to-all.
        is_to_one = collective.kind == SEND_RECV and (collective.group is not None or bool(trace.actions))
        if step < 0 or is_to_one:
            continue
        where = (trace.steps[step], collective.kind, collective.group, collective.group_name)
        order[where] += 1
        first = first_ranks.get(collective.group_name, first_ranks.get(collective.group))
        name = collective.group or "world"
        found.add(
            Attendance(
                name if not first else f"{name} from rank {first}",
                (collective.group_name, collective.key or (*where, order[where])),
                about.rank,
                collective.group_size or about.world_size or 0,
                float(trace.communications.duration_us[place]),
            )
        )
