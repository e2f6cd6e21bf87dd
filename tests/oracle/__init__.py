"""A slow, readable reference implementation of the simulator, written from the model alone."""

from tests.oracle.records import Layout, Op, OracleError
from tests.oracle.results import WhatIf, what_if

__all__ = ["Layout", "Op", "OracleError", "WhatIf", "what_if"]
