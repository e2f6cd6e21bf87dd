"""The smallest parts of a predicate: columns and literals, and what is said where there is none such."""

import difflib
from typing import Final

from sqlglot import exp

from schemas.vocabulary import OP_TYPE_GROUPS, OP_TYPES
from udfs.op_columns import NUMBER_COLUMNS, TEXT_COLUMNS

Word = str | int | float | None
"""A literal; None is NULL."""

COLUMNS: Final = (*TEXT_COLUMNS, *NUMBER_COLUMNS)

_MEANT: Final = {"stage": "pp_rank", "worker": "dp_rank and pp_rank together", "chunk": "model_chunk"}
"""Everyday words for columns, where the nearest spelling would mislead."""


class NotUnderstoodError(Exception):
    """Raised for a part of a predicate that is not understood; says which and, if known, what was meant."""


def column_name(node: exp.Expr, within: exp.Expr) -> str:
    """Name of a column that there is."""
    if not isinstance(node, exp.Column):
        raise not_understood(node, within)
    name = sql_of(node).strip("`").lower()
    if name in COLUMNS:
        return name
    if name in OP_TYPES:
        raise NotUnderstoodError(f"there is no column {name}: did you mean '{name}', in quotes?")
    close = difflib.get_close_matches(name, COLUMNS, n=1)
    meant = _MEANT.get(name) or (close[0] if close else None)
    raise NotUnderstoodError(f"there is no column {name}" + (f": did you mean {meant}?" if meant else ""))


def literal(node: exp.Expr, within: exp.Expr) -> Word:
    """A number, text or None for NULL."""
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Literal) and node.is_string:
        return str(node.this)
    negative = isinstance(node, exp.Neg)
    digits = node.this.unnest() if negative else node
    if not isinstance(digits, exp.Literal) or digits.is_string:
        raise not_understood(node, within)
    try:
        number = int(digits.this) if str(digits.this).isdecimal() else float(digits.this)
    except ValueError:
        raise not_understood(node, within) from None
    return -number if negative else number


def refuse_unknown_op_type(word: Word) -> None:
    """Refuse a text that no op type is called, naming the nearest; a group is told as its members."""
    if word is None or word in OP_TYPES:
        return
    members = [f"'{name}'" for name, group in OP_TYPE_GROUPS.items() if group == word]
    close = [f"'{name}'" for name in difflib.get_close_matches(str(word), OP_TYPES, n=1)]
    if members:
        meant = f"did you mean op_type IN ({', '.join(members)})?"
    else:
        meant = f"did you mean {close[0]}?" if close else f"there are {', '.join(OP_TYPES)}"
    raise NotUnderstoodError(f"there is no op type '{word}': {meant}")


def not_understood(node: exp.Expr, within: exp.Expr) -> NotUnderstoodError:
    """What to raise for a part of a condition, `within` which it stands."""
    part, whole = sql_of(node), sql_of(within)
    joined = part.replace(" ", "")
    if joined in OP_TYPES:
        return NotUnderstoodError(f"not understood: {part}; did you mean '{joined}', in quotes?")
    return NotUnderstoodError(f"not understood: {part}" + (f" in {whole}" if whole != part else ""))


def sql_of(node: exp.Expr) -> str:
    """A part as SQL again, for messages."""
    return node.sql("spark", comments=False)
