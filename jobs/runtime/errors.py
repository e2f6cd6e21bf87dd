"""Errors that a user can act on: the message says everything, without a traceback."""

from typing import ClassVar

from schemas.vocabulary import Exit


class PlainError(Exception):
    """Ends a command with its message and this exit status."""

    exit_status: ClassVar[int] = Exit.FAILED


class WrongInputError(PlainError):
    """Arguments, settings or folders that cannot be used."""

    exit_status = Exit.WRONG_SETTINGS


class DamagedError(PlainError):
    """Raised for a file of a warehouse that is not as it was written; the message names it."""
