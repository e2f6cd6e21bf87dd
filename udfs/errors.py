"""What the simulator raises, by cause."""


class TraceError(ValueError):
    """The recorded ops of a unit contradict each other; the message names job, step, worker and ops."""


class UnknownOpError(ValueError):
    """A rank log row holds an op type that is not in the vocabulary."""


class PredicateError(ValueError):
    """A predicate over ops is not understood; the message is one line with what is allowed."""


class NothingToReplayError(ValueError):
    """A unit has no step that could be replayed; the message says why."""


class NoSuchStepError(ValueError):
    """A unit has no such step that could be replayed; the message names those next to it."""
