"""Parse a predicate over ops from SQL text, and evaluate it.

DuckDB parses and evaluates it. Only logic over columns and literals is accepted; for anything else, an error
of one line says what is wrong and what is allowed.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from itertools import pairwise
from math import prod
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa

from schemas.vocabulary import OP_TYPE_GROUPS, OP_TYPES
from udfs.errors import PredicateError
from udfs.kernel.arrays import Mask
from udfs.scenario.op_columns import COLUMNS, TEXT_COLUMNS, Columns, OpColumn

Node = dict[str, Any]
"""An expression of DuckDB's tree."""

_CONDITION, _TEXT, _NUMBER = "a condition", "text", "a number"
_LITERALS: Final = dict.fromkeys(("INTEGER", "NUMERIC"), _NUMBER) | {"BOOLEAN": _CONDITION, "STRING": _TEXT}
_LOGIC: Final = {"CONJUNCTION_AND", "CONJUNCTION_OR", "OPERATOR_NOT"}
_NAMING: Final = {"COMPARE_EQUAL", "COMPARE_NOTEQUAL", "COMPARE_IN"}
_TESTS: Final = {*_NAMING, "COMPARE_BETWEEN", "OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL", "~~", "!~~"} | {
    f"COMPARE_{side}THAN{equal}" for side in ("LESS", "GREATER") for equal in ("", "OREQUALTO")
}
_QUOTED: Final = tuple(f"'{name}'" for name in OP_TYPES)
_COLUMN_OF: Final = {"stage": "pp_rank", "worker": "dp_rank and pp_rank together", "chunk": "model_chunk"} | {
    f"'{group}'": " or ".join(f"'{name}'" for name, of in OP_TYPE_GROUPS.items() if of == group)
    for group in OP_TYPE_GROUPS.values()
}
"""Suggestions for names of columns and op types for which the nearest spelling would mislead."""
_THERE_IS: Final = (
    f"use the columns {', '.join(COLUMNS)}, the operators AND, OR, NOT, =, !=, <>, "
    "<, <=, >, >=, IN, BETWEEN, IS NULL, LIKE, parentheses, numbers, 'text', NULL, TRUE and FALSE"
)
_TOGETHER: Final = 1_000_000
"""About how many ops DuckDB gets in one table, so that the ops of a large unit are not copied all at once."""


@dataclass(frozen=True)
class OpPredicate:
    """A parsed predicate: its text on one line, its SQL as given, and the columns it uses."""

    text: str
    sql: str
    names: tuple[str, ...]

    def chosen(self, columns: Columns) -> Mask:
        """Return the mask of ops for which the predicate is true; broadcastable to (op, step, dp_rank)."""
        found = {name: columns(name) for name in self.names or COLUMNS[:1]}
        shape = np.broadcast_shapes(*(axes.shape for column in found.values() for axes in column[:2]))
        mask = np.empty(shape, dtype=bool)
        for ends in pairwise(np.linspace(0, shape[0], prod(shape) // _TOGETHER + 2).astype(int).tolist()):
            part = slice(*ends)
            table = {}
            for name, (values, is_known, words) in found.items():
                nulls = ~np.broadcast_to(is_known, shape)[part].ravel()
                table[name] = pa.array(np.broadcast_to(values, shape)[part].ravel(), mask=nulls)
                if name in TEXT_COLUMNS:
                    table[name] = pa.DictionaryArray.from_arrays(table[name], pa.array(words, "string"))
            connection = _database().cursor().register("ops", pa.table(table))
            asked = connection.execute(f"SELECT ({self.sql}\n) IS TRUE AS chosen FROM ops")
            mask[part] = asked.fetchnumpy()["chosen"].reshape(mask[part].shape)
        return mask


def parse_predicate(text: str) -> OpPredicate:
    """Parse a predicate such as `op_type = 'forward-compute' AND pp_rank = 3`.

    raises : PredicateError, with one line, for other SQL, and for unknown columns and op types.
    """
    try:
        predicate = OpPredicate(" ".join(text.split()), text, _names(text))
        # Evaluated on one unknown op, so that what DuckDB cannot evaluate fails at once.
        predicate.chosen(lambda _: OpColumn(np.zeros((1, 1, 1), np.int64), np.zeros((1, 1, 1), np.bool_)))
    except RecursionError:
        message = "too deeply nested"
    except (PredicateError, duckdb.Error) as wrong:
        message = str(wrong).partition("\n\nLINE")[0]
    else:
        return predicate
    raise PredicateError(" ".join(f"{message}; {_THERE_IS}".split()))


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """Open DuckDB in memory, without access to files or networks and without extensions."""
    barred = ("enable_external_access", "autoload_known_extensions", "python_enable_replacements")
    bounds: dict[str, Any] = {"threads": 1, "memory_limit": "1GB"}  # one thread keeps the order of the ops
    return duckdb.connect(config=bounds | dict.fromkeys(barred, False) | {"lock_configuration": True})


def _names(text: str) -> tuple[str, ...]:
    """Return the columns that an SQL text uses; the text must be one condition."""
    query = "SELECT unnest([json_serialize_sql(?), json_serialize_sql('SELECT TRUE')])"
    rows = _database().cursor().execute(query, [f"SELECT {text}"]).fetchall()
    read, plain = (json.loads(row[0]) for row in rows)
    if read["error"]:
        raise PredicateError(f"not understood: {read['error_message']}")
    (tree, *more), _ = (each["statements"][0]["node"].pop("select_list", [{}]) for each in (read, plain))
    if read != plain or more or tree["alias"]:
        raise PredicateError(f"not understood: {text} is not one condition")
    names: list[str] = []
    if (kind := _kind(tree, text, names)) not in {_CONDITION, None}:
        raise PredicateError(f"{text} is {kind}, not a condition")
    return tuple(dict.fromkeys(names))


def _parts(found: object) -> Iterator[Node]:
    """Yield the direct subexpressions of an expression."""
    for each in found.values() if isinstance(found, dict) else found if isinstance(found, list) else ():
        if isinstance(each, dict) and "class" in each:
            yield each
        else:
            yield from _parts(each)


def _kind(node: Node, text: str, names: list[str]) -> str | None:
    """Return an expression's kind (condition, text, number; None for NULL); add its columns to `names`."""
    if node["type"] == "COLUMN_REF":
        names.append(_known("column", ".".join(node["column_names"]).lower(), COLUMNS))
        return _TEXT if names[-1] in TEXT_COLUMNS else _NUMBER
    if "literal" in node and node["literal"]["kind"] in {*_LITERALS, "NULL_LITERAL"}:
        return _LITERALS.get(node["literal"]["kind"])
    operator = node["function_name"] if node.get("is_operator") else node["type"]
    parts = list(_parts(node)) if operator in _LOGIC | _TESTS else []
    kinds = {kind for part in parts if (kind := _kind(part, text, names))}
    if not parts or len(kinds) > 1 or (kinds and (operator in _LOGIC) != (kinds == {_CONDITION})):
        first = min(each["query_location"] for each in (node, *parts))
        last = node["query_location"] + node["query_location_length"]
        excerpt = f"SELECT {text}".encode()[first:last].decode(errors="replace") or text
        given = f", with {' and '.join(sorted(kinds))}" if kinds else ""
        raise PredicateError(f"not understood: {excerpt}{given}")
    if operator in _NAMING and any(part.get("column_names", [""])[0].lower() == "op_type" for part in parts):
        for literal in (each for part in parts if (each := part.get("literal", {})).get("kind") == "STRING"):
            _known("op type", f"'{literal['text']}'", _QUOTED)
    return _CONDITION


def _known(what: str, name: str, there_are: Sequence[str]) -> str:
    """Return a name if it is in `there_are`; else raise PredicateError with the most similar column."""
    if name in there_are:
        return name
    column = _COLUMN_OF.get(name, *get_close_matches(name, (*COLUMNS, *_QUOTED), n=1))
    message = f"did you mean {column}?" if column else f"choose from {', '.join(there_are)}"
    raise PredicateError(f"no {what} {name}: {message}")
