"""Exceptions that the simulator raises, each with its cause."""


class TraceError(ValueError):
    """Raised when recorded ops of a unit contradict each other; names job, step, worker and ops."""


class UnknownOpError(ValueError):
    """Raised for a rank log row with an op type that is not in the vocabulary."""


class PredicateError(ValueError):
    """Raised for a predicate over ops that cannot be parsed; the message says in one line what is allowed."""


class NothingToReplayError(ValueError):
    """Raised when a unit has no step that can be replayed; the message says why."""


class NoSuchStepError(ValueError):
    """Raised when a unit has no replayable step of this number; the message names the nearest steps."""
