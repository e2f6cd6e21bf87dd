"""Exceptions that the kernel raises for traces that cannot have happened."""

from typing import NamedTuple


class OpRef(NamedTuple):
    """Position of one op; `ordinal` counts ops of its type within the step, by start time."""

    stage: int
    dp_rank: int
    op_type: int
    ordinal: int


class TraceDefectError(Exception):
    """Raised when recorded ops contradict each other, so that no dependency graph exists.

    step_index : position of a step with the defect, among the replayed steps.
    defect     : one sentence without a full stop.
    ops        : the ops that form the defect, at least one.
    """

    def __init__(self, defect: str, ops: list[OpRef], step_index: int = 0) -> None:
        super().__init__(defect)
        self.defect = defect
        self.ops = ops
        self.step_index = step_index
