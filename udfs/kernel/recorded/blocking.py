"""Transfers that block their worker: the log suggests them, and replays confirm them (model, section 2)."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.graph.graph import Blocking, TraceDefectError
from udfs.kernel.recorded.durations import SENDS, put_transfers
from udfs.kernel.recorded.eager import are_eager
from udfs.kernel.recorded.signs import begin_at_once, types_that_may
from udfs.kernel.recorded.trace import StepBlock
from udfs.kernel.replay.replay import step_times
from udfs.kernel.selection import median_of_all

LEAST_DISCREPANCY: Final = 1e-5
"""Nothing is tried if the replay is nearer to the record than this share of the step time."""

NOTABLE: Final = 0.005
"""From this discrepancy on, step times show whether transfers block; below it, the starts of ops do."""

NO_WORSE: Final = 1e-5
"""If the starts of ops decide, blocking may move the replay away from the record by this share of the
step."""

LEAST_GAIN: Final = 0.004
"""Blocking transfers must bring the replay closer to the record by this share of the step time."""

LITTLE_MORE: Final = 2.0
"""If the discrepancy is at most this multiple of LEAST_GAIN, blocking would have to remove nearly all of it.
A lower bound of what remains usually rules that out, and is computed before single steps are tried."""

MOST_LEFT: Final = 0.75
"""Blocking must leave at most this share of the discrepancy; if more is left, there is another reason."""

ROUNDING: Final = 1e-9
"""Share of a step by which equal replays may differ."""

FAR: Final = 2.0
"""Steps with more than this multiple of the median discrepancy may show waits that other steps do not."""

STEPS: Final = 16
"""Most steps that are compared, spread over the run."""


class BlockingFound(NamedTuple):
    """Transfers that were found to block, and by how much replays miss the log without and with blocking.

    nonblocking : median over compared steps of |T_actual - T| / T_actual; nan where nothing was compared.
    blocking    : the same with blocking transfers; nan if no replay with these was needed.
    least       : lower bound of `blocking` for any choice of fewer types, from `least_discrepancy`.
    """

    chosen: Blocking = Blocking()
    nonblocking: float = float("nan")
    blocking: float = float("nan")
    least: float = 0.0


class Sample(NamedTuple):
    """A sample of steps that can be laid out for any choice of blocking transfers.

    steps   : their positions, ascending.
    plain_s : float64, shape (step,); replayed step times if nothing blocks. [s]
    lay_out : returns the blocks of some steps for a choice of blocking transfers, all times on one clock.
    clock   : returns the clock of each row of a block, int, shape (stage, step, dp_rank).
    is_probed : whether one step is tried first, because laying out all steps takes far longer.
    """

    steps: Sequence[int]
    plain_s: Floats
    lay_out: Callable[[Blocking, Sequence[int]], list[StepBlock]]
    clock: Callable[[StepBlock], Ints]
    is_probed: bool

    def laid_out(self, blocking: Blocking, steps: Sequence[int]) -> list[StepBlock] | None:
        """Return the blocks of some steps, as by `lay_out`; None if blocking by these types makes a cycle."""
        try:
            return self.lay_out(blocking, steps)
        except TraceDefectError:
            return None


def sampled(steps: int) -> range:
    """Return the positions of the steps on which blocking is tested."""
    apart = -(-steps // STEPS)
    return range((steps - 1) % apart // 2, steps, apart)


def discrepancy(replayed_s: Floats, actual_s: Floats) -> float:
    """Return |T_actual - T| / T_actual, as median over steps, from times of shape (step,). [s]"""
    apart: Floats = np.abs(actual_s - replayed_s) / np.where(actual_s > 0.0, actual_s, np.nan)
    return median_of_all(apart)


def choose(sample: Sample, nonblocking: float, stated: tuple[int, ...] | None) -> BlockingFound:
    """Choose the types of transfers that block.

    nonblocking : discrepancy of the same steps if no transfer blocks.
    stated      : types that block according to the manifest, which are then chosen; None if it states none.
    """
    nothing = BlockingFound(nonblocking=nonblocking)
    if stated is None:
        blocks = _promising(sample, nonblocking)
    else:
        blocks = sample.lay_out(Blocking(), sample.steps) if stated else []
    if not blocks:
        return nothing
    types = types_that_may(blocks) if stated is None else stated
    sends = tuple(each for each in types if each in SENDS)
    eager = sends if are_eager(sends, blocks, sample.clock) else ()
    if eager and stated is None:
        types = types_that_may(blocks, eager)
        eager = tuple(each for each in eager if each in types)
    found = _tried(sample, types, eager, nonblocking)
    if found is None:
        return nothing
    least_gain = LEAST_GAIN / 2 if nonblocking >= NOTABLE else nonblocking / 4
    may_gain = stated is None and found.blocking - found.least >= least_gain - ROUNDING
    for each in types if may_gain else ():
        # A type whose transfers do not block is dropped, because the replay is closer without its waits.
        fewer = _tried(sample, tuple(t for t in found.chosen.types if t != each), eager, nonblocking)
        if fewer is not None and found.blocking - fewer.blocking >= least_gain:
            found = fewer
    return found if stated is not None or _is_shown(sample, found) else found._replace(chosen=Blocking())


def _is_shown(sample: Sample, found: BlockingFound) -> bool:
    """Return whether the log shows that transfers block, by step times or by when ops start."""
    gain = found.nonblocking - found.blocking
    if found.nonblocking >= NOTABLE:
        return gain >= LEAST_GAIN and found.blocking <= MOST_LEFT * found.nonblocking
    if gain < -NO_WORSE:
        return False
    plain, waiting = (sample.lay_out(each, sample.steps) for each in (Blocking(), found.chosen))
    return begin_at_once(plain, waiting)


def choose_by_all_and_far(sample: Sample, actual_s: Floats, stated: tuple[int, ...] | None) -> BlockingFound:
    """Choose blocking types by all steps; if there are none, by the steps whose replay misses the log most.

    actual_s : recorded step times, shape (step,). [s]
    """
    of_all = choose(sample, discrepancy(sample.plain_s, actual_s), stated)
    if of_all.chosen.types or stated is not None:
        return of_all
    apart = np.abs(actual_s - sample.plain_s)
    at = np.flatnonzero(apart > np.maximum(NOTABLE, FAR * of_all.nonblocking) * actual_s)
    if at.size < 2:
        return of_all
    far = sample._replace(
        steps=[sample.steps[each] for each in at.tolist()], plain_s=sample.plain_s[at], is_probed=True
    )
    chosen = choose(far, discrepancy(far.plain_s, actual_s[at]), None).chosen
    found = _tried(sample, chosen.types, chosen.eager, of_all.nonblocking) if chosen.types else None
    is_as_close = found is not None and found.blocking <= of_all.nonblocking + LEAST_GAIN / 2
    return found if found is not None and is_as_close else of_all


def _tried(
    sample: Sample, types: tuple[int, ...], eager: tuple[int, ...], nonblocking: float
) -> BlockingFound | None:
    """Replay with these types blocking, and return how far step times are off; None if waits form a cycle."""
    sends = tuple(each for each in types if each in SENDS)
    for each in dict.fromkeys((tuple(each for each in eager if each in types), sends)):
        blocking = Blocking(types, each)
        blocks = sample.laid_out(blocking, sample.steps)
        if blocks is None:
            continue  # Sends and recvs wait for each other, which cannot have happened.
        replays = _replays(blocks, sample.clock)
        least = 0.0 if each else least_discrepancy(blocks, replays, sample.plain_s)
        return BlockingFound(blocking, nonblocking, discrepancy(replays.replayed_s, replays.actual_s), least)
    return None


def _promising(sample: Sample, nonblocking: float) -> list[StepBlock]:
    """Lay out the steps in which blocking may be found; no steps if transfers surely do not block.

    Times and meetings of the steps do not depend on the types that block.
    """
    if not nonblocking >= LEAST_DISCREPANCY:
        return []
    if nonblocking < NOTABLE:
        return sample.lay_out(Blocking(), sample.steps) if _may_be_seen(sample) else []
    is_probed = sample.is_probed or nonblocking > LITTLE_MORE * LEAST_GAIN
    if is_probed and not _may_gain(sample):
        return []
    every = sample.laid_out(Blocking(ot.TRANSFERS), sample.steps)
    if every is None:
        plain = sample.lay_out(Blocking(), sample.steps)
        return plain if is_probed or _may_gain(sample) else []
    replays = _replays(every, sample.clock)
    if _is_ruled_out(every, replays, sample, nonblocking):
        return []
    # If every step replays as recorded, waits may show even if a middle step has none.
    apart = np.abs(replays.actual_s - replays.replayed_s)
    is_near = (apart <= LEAST_GAIN / 2 * replays.actual_s).all()
    return every if is_probed or is_near or _may_gain(sample) else []


def _may_be_seen(sample: Sample) -> bool:
    """Return whether a middle step shows waits; a look at all steps would take far longer."""
    at = len(sample.steps) // 2
    plain = sample.lay_out(Blocking(), sample.steps[at : at + 1])
    types = types_that_may(plain)
    if not types:
        return False
    waiting = sample.laid_out(Blocking(types), sample.steps[at : at + 1])
    return waiting is None or begin_at_once(plain, waiting, least=1)


def _is_ruled_out(
    every: Sequence[StepBlock], replays: "_Replays", sample: Sample, nonblocking: float
) -> bool:
    """Return whether no choice of blocking types can bring the replay close enough to the log.

    The bound does not hold for eager sends, which take as long as recorded; with these the answer is no.

    every : the steps with all transfers blocking. replays : their replays.
    """
    least = least_discrepancy(every, replays, sample.plain_s)
    is_near = nonblocking - least >= LEAST_GAIN - ROUNDING and least <= MOST_LEFT * nonblocking + ROUNDING
    return not is_near and not are_eager(SENDS, every, sample.clock)


def _may_gain(sample: Sample) -> bool:
    """Return whether a middle step's replay gets much longer if all its transfers block."""
    at = len(sample.steps) // 2
    every = sample.laid_out(Blocking(ot.TRANSFERS), sample.steps[at : at + 1])
    if every is None:
        return True
    replays = _replays(every, sample.clock)
    return bool((replays.replayed_s - sample.plain_s[at] >= LEAST_GAIN / 2 * replays.actual_s).any())


class _Replays(NamedTuple):
    """Replayed and recorded step times of some blocks of steps, float64, shape (step,). [s]

    negative_s : upper bound of the time by which ops of negative duration shorten a path; at least 0.
    """

    replayed_s: Floats
    actual_s: Floats
    negative_s: Floats


def _replays(blocks: Sequence[StepBlock], clock: Callable[[StepBlock], Ints]) -> _Replays:
    parts = []
    for block in blocks:
        end_s = block.start_s + block.duration_s
        duration_s = block.duration_s.copy()
        put_transfers(block.graph, block.start_s, end_s, duration_s, clock(block))
        actual_s = end_s.max(axis=(0, 2)) - block.start_s.min(axis=(0, 2))
        negative_s = -np.minimum(duration_s.min(axis=2), 0.0).sum(axis=0)
        parts.append((step_times(block.graph, duration_s), actual_s, negative_s))
    return _Replays(*map(np.concatenate, zip(*parts, strict=True)))


def least_discrepancy(blocks: Sequence[StepBlock], replays: _Replays, plain_s: Floats) -> float:
    """Return a lower bound of the discrepancy of any replay with fewer blocking types; 0 if none is known.

    The bound saves replays of fewer types that cannot gain enough, and does not change which are chosen. It
    holds if all rows of a stage have one order, and if no turn has more than two ops. An op that follows
    another one without some types then also follows it with these types, perhaps with ops between them: of
    two ops of different turns the later one waits for the earlier one, and two ops of one turn stay in one
    turn. So every path through the graph of fewer types is a path through the graph of all types with some
    ops left out, and every path through the graph without blocking is also one through the graph of fewer
    types. A step takes as long as its longest path. With fewer types it therefore takes at most as long as
    with all types, and at least as long as without blocking, except for ops of negative duration, each of
    which a path passes once.

    blocks  : with all types blocking, none of them eager. replays : their replays.
    plain_s : float64, shape (step,); replayed step times without blocking, in the order of `replays`. [s]
    """
    if len(blocks) != 1 or not blocks[0].graph.has_dp_lanes:
        return 0.0
    if any(len(turn) > 2 for cell in blocks[0].graph.cells for turn in cell.program.worker_order):
        return 0.0
    replayed_s, actual_s, negative_s = replays
    nearest_s = np.clip(actual_s, plain_s - negative_s, replayed_s + negative_s)
    return discrepancy(nearest_s, actual_s)
