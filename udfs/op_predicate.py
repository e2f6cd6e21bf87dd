"""A predicate over ops, from SQL text: which ops does a custom scenario change?

Read in Spark's dialect, like the text of a query over the view ops. What is not in the list below is refused
with one line: what was understood, what was not, and what there is.
"""

import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

import numpy as np
import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from udfs.errors import PredicateError
from udfs.kernel.masked import Mask
from udfs.op_columns import TEXT_COLUMNS
from udfs.op_conditions import (
    And,
    Columns,
    Condition,
    Constant,
    IsNull,
    Not,
    NumberPairTest,
    NumberTest,
    Or,
    WordTest,
)
from udfs.predicate_words import (
    COLUMNS,
    NotUnderstoodError,
    Word,
    column_name,
    literal,
    not_understood,
    refuse_unknown_op_type,
    sql_of,
)

_COMPARISONS: Final[dict[type[exp.Expr], Callable[[Any, Any], Any]]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}
_READ: Final[dict[type[exp.Expr], tuple[str, ...]]] = {
    **dict.fromkeys(_COMPARISONS, ("expression",)),
    exp.Between: ("low", "high"),
    exp.Column: ("table", "db", "catalog"),
    exp.In: ("expressions",),
    exp.Is: ("expression",),
    exp.Like: ("expression", "negate"),
}
"""What is read of each node besides `this`; anything else the parser notes there would change the meaning."""

_THERE_IS: Final = (
    f"there are the columns {', '.join(COLUMNS)}, the operators AND, OR, NOT, =, !=, <>, "
    "<, <=, >, >=, IN, BETWEEN, IS NULL, LIKE, parentheses, numbers, 'text', NULL, TRUE and FALSE"
)

_RECALLED: Final = 3
"""How many conditions before the one that was not understood are told."""


@dataclass(frozen=True)
class OpPredicate:
    """A predicate that was understood.

    text : as it was given, on one line.
    """

    text: str
    condition: Condition

    def chosen(self, columns: Columns) -> Mask:
        """Ops of a block for which the predicate is true; bool, broadcastable to (op, step, dp_rank)."""
        return self.condition.truth(columns).holds


def parse_predicate(text: str) -> OpPredicate:
    """Understand a predicate such as `op_type = 'forward-compute' AND pp_rank = 3`.

    raises : PredicateError, one line, for anything that is not in the language or names what does not exist.
    """
    line = " ".join(text.split())
    if not line:
        raise PredicateError(f"the predicate is empty: {_THERE_IS}")
    reader = _Reader()
    try:
        return OpPredicate(line, reader.condition(_tree(text)))
    except NotUnderstoodError as wrong:
        understood = ", ".join(reader.understood[-_RECALLED:])
        told = f"understood {understood}; {wrong}" if understood else str(wrong)
    except RecursionError:
        told = "too deeply nested"
    raise PredicateError(" ".join(f"{told}; {_THERE_IS}".split()))


def _tree(text: str) -> exp.Expr:
    """Parse SQL text."""
    try:
        return sqlglot.parse_one(text, read="spark", into=exp.Condition)
    except ParseError as error:
        where = error.errors[0] if error.errors else {}
        before, found = str(where.get("start_context") or "").strip(), str(where.get("highlight") or text)
        if str(where.get("description")).startswith(("Required", "Expecting")):
            raise NotUnderstoodError(f"{before} {found} is not complete".strip()) from None
        raise NotUnderstoodError(
            f"understood {before}; not understood: {found}" if before else f"not understood: {found}"
        ) from None
    except SqlglotError:
        raise NotUnderstoodError(f"not understood: {text} (is there a quote that is not closed?)") from None


class _Reader:
    """Turns a parsed tree into conditions and keeps which were understood."""

    def __init__(self) -> None:
        self.understood: list[str] = []

    def condition(self, node: exp.Expr) -> Condition:
        """Read what is true, false or null."""
        if isinstance(node, exp.Paren):
            return self.condition(node.this)
        if isinstance(node, exp.Not):
            return Not(self.condition(node.this))
        if isinstance(node, exp.And):
            return And([self.condition(each) for each in node.flatten()])
        if isinstance(node, exp.Or):
            return Or([self.condition(each) for each in node.flatten()])
        found = self._test(node)
        self.understood.append(sql_of(node))
        return found

    def _test(self, node: exp.Expr) -> Condition:
        """Read a condition that holds no other."""
        if {name for name, value in node.args.items() if value} - {"this", *_READ.get(type(node), ())}:
            raise not_understood(node, node)
        if isinstance(node, exp.Boolean | exp.Null):
            return Constant(None if isinstance(node, exp.Null) else bool(node.this))
        if type(node) in _COMPARISONS:
            return _comparison(node, node.this, node.expression, _COMPARISONS[type(node)])
        if isinstance(node, exp.Between):
            low = _comparison(node, node.this, node.args["low"], operator.ge)
            return And([low, _comparison(node, node.this, node.args["high"], operator.le)])
        if isinstance(node, exp.In) and node.expressions:
            return _membership(node)
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            return IsNull(column_name(node.this, node))
        if isinstance(node, exp.Like):
            return Not(_like(node)) if node.args.get("negate") else _like(node)
        if isinstance(node, exp.Column):
            raise NotUnderstoodError(f"{column_name(node, node)} alone is no condition")
        raise not_understood(node, node)


def _comparison(
    node: exp.Expr, left: exp.Expr, right: exp.Expr, compare: Callable[[Any, Any], Any]
) -> Condition:
    """Compare a column with a literal, a literal with a column, or two of one kind."""
    left, right = left.unnest(), right.unnest()
    if isinstance(left, exp.Column) and isinstance(right, exp.Column):
        names = column_name(left, node), column_name(right, node)
        if any(name in TEXT_COLUMNS for name in names):
            raise NotUnderstoodError(f"{sql_of(node)}: text is compared with a 'text', not with a column")
        return NumberPairTest(*names, compare)
    if isinstance(right, exp.Column):
        word, name = literal(left, node), column_name(right, node)
        return _test_of(name, [word], node, lambda value: compare(word, value))
    if isinstance(left, exp.Column):
        name, word = column_name(left, node), literal(right, node)
        return _test_of(name, [word], node, lambda value: compare(value, word))
    words = literal(left, node), literal(right, node)
    if None in words:
        return Constant(None)
    if isinstance(words[0], str) != isinstance(words[1], str):
        raise NotUnderstoodError(f"{sql_of(node)} compares text with a number")
    return Constant(bool(compare(*words)))


def _test_of(name: str, words: list[Word], node: exp.Expr, test: Callable[[Any], Any]) -> Condition:
    """A test of one column against literals of its kind; null where there is only NULL."""
    is_text = name in TEXT_COLUMNS
    for word in words:
        if word is not None and isinstance(word, str) != is_text:
            kind = "text" if is_text else "a number"
            raise NotUnderstoodError(f"{sql_of(node)}: {name} is {kind}, {word!r} is not")
        if name == "op_type" and isinstance(node, exp.EQ | exp.NEQ | exp.In):
            refuse_unknown_op_type(word)
    if all(word is None for word in words):
        return Constant(None)
    return WordTest(name, test) if is_text else NumberTest(name, test)


def _membership(node: exp.In) -> Condition:
    """Column IN (literals): null, not false, where it is none of them and one of them is NULL."""
    name = column_name(node.this.unnest(), node)
    words = [literal(each.unnest(), node) for each in node.expressions]
    found = _test_of(name, words, node, _one_of(word for word in words if word is not None))
    return Or([found, Constant(None)]) if None in words else found


def _one_of(words: Iterable[str | int | float]) -> Callable[[Any], Any]:
    """Whether a text is one of these, or numbers of an int64 array are."""
    texts: set[str] = set()
    numbers: set[int] = set()
    for word in words:
        if isinstance(word, str):
            texts.add(word)
        elif isfinite(word) and word == int(word) and abs(word) < 2**63:
            numbers.add(int(word))
    wanted = np.array(sorted(numbers), dtype=np.int64)
    return lambda value: value in texts if isinstance(value, str) else np.isin(value, wanted)


def _like(node: exp.Like) -> Condition:
    """Text LIKE 'pattern': % is any text, _ any character."""
    name, pattern = column_name(node.this.unnest(), node), literal(node.expression.unnest(), node)
    if name not in TEXT_COLUMNS:
        raise NotUnderstoodError(f"{sql_of(node)}: {name} is a number, LIKE asks of text")
    if pattern is None:
        return Constant(None)
    if not isinstance(pattern, str) or "\\" in pattern:
        raise NotUnderstoodError(f"{sql_of(node)}: LIKE wants a 'text' without backslashes")
    parts = {"%": ".*", "_": "."}
    wanted = re.compile("".join(parts.get(each) or re.escape(each) for each in pattern), re.DOTALL)
    return WordTest(name, lambda word: wanted.fullmatch(word) is not None)
