"""Folders that deltalake takes for others, or does not take: a warehouse in one is refused in a line."""

import re
from typing import Final

_MISREAD: Final = re.compile(r"%[0-9A-Fa-f]{2}|[\\\x00-\x1f\x7f]")
"""It makes a URL of the path: %20 means a space there, and \\ means /."""
_NOT_WRITTEN: Final = re.compile(r"[*?{}\[\]^|%:]")
"""Spark takes the first six for a pattern, which another folder may match, and no path with the last;
deltalake's commits fail on those between; what a % means depends on what follows it."""


def not_readable(root: str) -> str:
    """Say why the tables under a root cannot be read; empty if they can, or lie in a store."""
    return _said(_MISREAD, root)


def not_writable(root: str) -> str:
    """Say why tables under a root cannot be written; empty as above."""
    return not_readable(root) or _said(_NOT_WRITTEN, root)


def _said(pattern: re.Pattern[str], root: str) -> str:
    found = None if "://" in root else pattern.search(root)
    return f"Delta tables cannot lie in a folder with {found[0]!a} in its path" if found else ""
