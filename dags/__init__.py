"""The DAGs, with one explicit file each, and their building blocks in `operators`."""

from pathlib import Path
from typing import Final

PROJECT: Final = str(Path(__file__).resolve().parents[1])
"""Folder of the project that these DAGs belong to."""
