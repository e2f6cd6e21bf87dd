"""Causes revised by what other runs and other jobs say; plain Python over a few numbers of each unit."""

from typing import Final

REVISION_VERSION: Final = "1.2.0"
"""Raised whenever the revision makes other causes of the same results, by more than rounding."""
