"""Revision of a unit's causes by comparison with other runs and jobs; plain Python on a few figures."""

from typing import Final

REVISION_VERSION: Final = "1.2.0"
"""Version of the revision; it is increased if the same results give other causes, by more than rounding."""
