"""Formats of other tools, in the order in which files are tested against them.

NCCL Inspector's logs give no rows of ops and are found elsewhere: beside rank logs by name (landing.files),
among logs of other tools by content (landing.read_foreign).
"""

from typing import Final

from jobs.landing.formats import kineto, megascan, megascan_aggregated, megatron_console, refused, timeline
from jobs.landing.formats.foreign import Format

FORMATS: Final[tuple[Format, ...]] = (
    timeline,
    megascan,
    megascan_aggregated,
    kineto,
    megatron_console,
    refused,
)
LAST: Final[tuple[Format, ...]] = (megascan_aggregated, megatron_console, refused)
"""Formats that are chosen for a run only if none of its files has another one, in order of preference."""
HEAD_BYTES: Final = 64 << 10
"""Bytes of the unpacked start by which a file is recognised."""


def format_of(head: bytes) -> Format | None:
    """Return the format of a file with this head; None if no tool is recognised."""
    return next((each for each in FORMATS if each.recognises(head)), None)
