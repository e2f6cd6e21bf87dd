"""Revision: correct a unit's causes by other runs and jobs; plain Python over a few figures per unit."""

from typing import Final

REVISION_VERSION: Final = "1.2.0"
"""Raised when the revision computes different causes from the same results, by more than rounding."""
