"""What the simulator raises, by cause."""


class TraceError(ValueError):
    """The recorded ops of a unit contradict each other; the message names job, step, worker and ops."""


class UnknownOpError(ValueError):
    """A rank log row holds an op type that is not in the vocabulary."""
