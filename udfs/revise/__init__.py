"""Revision: correct a unit's causes by other runs and jobs; plain Python over a few figures per unit."""

from typing import Final

REVISION_VERSION: Final = "1.2.0"
"""Raised whenever the revision makes other causes of the same results, by more than rounding."""
