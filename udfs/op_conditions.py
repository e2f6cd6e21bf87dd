"""Conditions over the ops of a block, in SQL's three-valued logic, evaluated on whole axes at once.

What a column does not depend on, it has length 1 along: `pp_rank = 3 AND step > 100` compares ops and steps
once each and meets in one broadcast.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import NamedTuple, Protocol

import numpy as np

from udfs.kernel.masked import Mask
from udfs.kernel.program import Ints


class OpColumn(NamedTuple):
    """A column of all ops of a block.

    values   : int, broadcastable to (op, step, dp_rank); numbers, or positions in `words`.
    is_known : bool, likewise; False where the column is null.
    words    : what the values of a text column stand for; empty for a column of numbers.
    """

    values: Ints
    is_known: Mask
    words: Sequence[str] = ()


Columns = Callable[[str], OpColumn]
"""Gives a column by its name."""


class Truth(NamedTuple):
    """Where a condition holds and where it fails; where neither, it is null.

    holds, fails : bool, broadcastable to (op, step, dp_rank).
    """

    holds: Mask
    fails: Mask


class Condition(Protocol):
    """What can be asked of every op."""

    def truth(self, columns: Columns) -> Truth:
        """Ask it of all ops of a block."""
        ...


@dataclass(frozen=True)
class Constant:
    """TRUE, FALSE or NULL, whatever the op."""

    value: bool | None

    def truth(self, columns: Columns) -> Truth:  # noqa: ARG002 - a constant reads no column
        """The same for all ops."""
        return Truth(np.full((1, 1, 1), self.value is True), np.full((1, 1, 1), self.value is False))


@dataclass(frozen=True)
class NumberTest:
    """A test of a column of numbers, made on the whole array."""

    column: str
    test: Callable[[Ints], Mask]

    def truth(self, columns: Columns) -> Truth:
        """Null where the number is."""
        values, is_known, _ = columns(self.column)
        passed = self.test(values)
        return Truth(passed & is_known, ~passed & is_known)


@dataclass(frozen=True)
class NumberPairTest:
    """A comparison of two columns of numbers."""

    left: str
    right: str
    compare: Callable[[Ints, Ints], Mask]

    def truth(self, columns: Columns) -> Truth:
        """Null where either number is."""
        left, right = columns(self.left), columns(self.right)
        passed = self.compare(left.values, right.values)
        is_known = left.is_known & right.is_known
        return Truth(passed & is_known, ~passed & is_known)


@dataclass(frozen=True)
class WordTest:
    """A test of a text column, made once per distinct word."""

    column: str
    test: Callable[[str], bool]

    def truth(self, columns: Columns) -> Truth:
        """Null where the text is."""
        values, is_known, words = columns(self.column)
        # The word behind the last stands in where there are no words at all, because every value is null.
        passed = np.array([*(self.test(word) for word in words), False])[values]
        return Truth(passed & is_known, ~passed & is_known)


@dataclass(frozen=True)
class IsNull:
    """IS NULL, which itself is never null."""

    column: str

    def truth(self, columns: Columns) -> Truth:
        """Hold where the column is null."""
        is_known = columns(self.column).is_known
        return Truth(~is_known, is_known)


@dataclass(frozen=True)
class Not:
    """NOT: null stays null."""

    condition: Condition

    def truth(self, columns: Columns) -> Truth:
        """Hold where the condition fails."""
        holds, fails = self.condition.truth(columns)
        return Truth(fails, holds)


@dataclass(frozen=True)
class And:
    """AND of one condition or more."""

    conditions: Sequence[Condition]

    def truth(self, columns: Columns) -> Truth:
        """Hold where all hold, fail where one fails."""
        truths = [condition.truth(columns) for condition in self.conditions]
        return Truth(
            reduce(and_, (each.holds for each in truths)), reduce(or_, (each.fails for each in truths))
        )


@dataclass(frozen=True)
class Or:
    """OR of one condition or more."""

    conditions: Sequence[Condition]

    def truth(self, columns: Columns) -> Truth:
        """Hold where one holds, fail where all fail."""
        truths = [condition.truth(columns) for condition in self.conditions]
        return Truth(
            reduce(or_, (each.holds for each in truths)), reduce(and_, (each.fails for each in truths))
        )
