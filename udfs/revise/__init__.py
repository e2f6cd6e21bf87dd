"""Revision of a unit's causes by comparison with other runs and jobs; plain Python on a few figures."""

from typing import Final

REVISION_VERSION: Final = "1.2.0"
"""Raised when the revision computes different causes from the same results, by more than rounding."""
