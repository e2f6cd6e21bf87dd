"""Errors that a user can act on, shown without a traceback."""

from typing import ClassVar

from schemas.vocabulary import Exit


class PlainError(Exception):
    """Error that ends a command with its message and this exit status."""

    exit_status: ClassVar[int] = Exit.FAILED


class WrongInputError(PlainError):
    """Raised for arguments, settings or folders that cannot be used."""

    exit_status = Exit.WRONG_SETTINGS


class DamagedError(PlainError):
    """Raised for a warehouse file that differs from what was written; the message names the file."""
