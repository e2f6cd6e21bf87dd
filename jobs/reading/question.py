"""A question: one SELECT in Spark SQL over tables and views, checked and transpiled for its engine.

An engine never gets the text that a user typed, but SQL that is generated from the parsed and checked text.
"""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property, lru_cache
from typing import Final

from sqlglot import exp, parse
from sqlglot.errors import SqlglotError

from jobs.runtime.nearest import suggestion
from jobs.warehouse.dialect import to_duckdb
from jobs.warehouse.reader import QuestionError
from schemas.sql_files import VIEW_NAMES
from schemas.tables import TABLES
from schemas.vocabulary import TABLE_NAMES

NAMES: Final = (*TABLE_NAMES, *VIEW_NAMES)
"""Everything that a question can read."""

_SHOW_TABLES: Final = re.compile(r"\s*SHOW\s+TABLES\s*;?\s*", re.IGNORECASE)
_ONLY: Final = "only one SELECT can be asked, or DESCRIBE, or SHOW TABLES"
_TOO_DEEP: Final = "its parentheses or operators are nested too deeply"
_CHANGES: Final = (exp.DDL, exp.DML, exp.Into, exp.QueryTransform, exp.Command, exp.Lock)
_REFUSED: Final = {
    *("reflect", "try_reflect", "java_method", "identifier"),
    *("from_protobuf", "to_protobuf", "from_avro", "to_avro", "schema_of_avro"),
}
"""Functions that call Java methods by name, take the name of a table from a text, or open a schema's file."""
_WORDS: Final = ("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "JOIN")
_LIKE: Final = 0.75
"""Least similarity, by difflib, at which a word may be a misspelt keyword of SQL; FORM and FROM have it."""
_FEW: Final = 5
"""Most tables that an error names as having a column; if more have it, the error names none."""
_SETTINGS: Final = re.compile(r"\.? (?:Use TRY\(|If necessary set \").*")
"""Advice in an engine's error to change a setting, which a question cannot do."""
_EXPLODES: Final = (exp.Explode, exp.Inline, exp.Stack, exp.Subquery)
"""Expressions that may follow LATERAL; a table function in this place could read any file."""

logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # this module raises errors instead of its warnings


@dataclass(frozen=True)
class Question:
    """A checked question, which only reads tables and views of the warehouse."""

    tree: exp.Expr

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """Return the tables and views that the question names."""
        named = {each.name.lower() for each in self.tree.find_all(exp.Table)}
        return tuple(name for name in NAMES if name in named)

    @property
    def is_select(self) -> bool:
        """Return whether the question is a SELECT rather than SHOW TABLES."""
        return not isinstance(self.tree, exp.Command)

    @property
    def texts(self) -> set[str]:
        """Return the string literals of the question."""
        return {each.name for each in self.tree.find_all(exp.Literal) if each.is_string}

    @property
    def for_spark(self) -> str:
        """Return the question's SQL for Spark."""
        try:
            return self.tree.sql("spark", comments=False)
        except RecursionError:
            raise QuestionError(_TOO_DEEP) from None

    @property
    def for_duckdb(self) -> str:
        """Return the question's SQL for DuckDB. Raises QuestionError if it cannot be transpiled."""
        if not self.is_select:
            return "SHOW TABLES FROM memory"  # without Arrow tables of the connection, which are temporary
        try:
            return to_duckdb(self.tree)
        except SqlglotError as error:
            raise QuestionError(f"{first_line(error)} (it may work with --engine spark)") from None
        except RecursionError:
            raise QuestionError(_TOO_DEEP) from None


@lru_cache(maxsize=64)  # a page parses each of its questions twice: for Reader.prepare and for Reader.rows
def question(sql: str) -> Question:
    """Parse and check a question. Raises QuestionError unless it only reads existing tables and views."""
    if _SHOW_TABLES.fullmatch(sql):
        return Question(exp.Command(this="SHOW", expression="TABLES"))
    tree = _read(sql)
    for hint in list(tree.find_all(exp.Hint)):
        hint.pop()
    _check(tree)
    asked = Question(tree)
    _check(_read(asked.for_spark))  # the generated SQL is checked like the typed text
    return asked


def _read(sql: str) -> exp.Expr:
    """Parse a text that holds a single statement. Raises QuestionError for other texts."""
    try:
        trees = parse(sql, read="spark")
    except SqlglotError as error:
        raise QuestionError(_first(error)) from None
    except RecursionError:
        raise QuestionError(_TOO_DEEP) from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Query | exp.Describe):
        raise QuestionError(_ONLY)
    return trees[0]


def _check(tree: exp.Expr) -> None:
    if next(tree.find_all(*_CHANGES), None) is not None:
        raise QuestionError(_ONLY)
    for call in tree.find_all(exp.Anonymous):
        if call.name.lower() in _REFUSED:
            raise QuestionError(f"{call.name}: this function is not allowed")
    for most in tree.find_all(exp.ArgMax, exp.ArgMin):
        # DuckDB's third argument is the number of values, and sqlglot leaves it out for Spark.
        if most.args.get("count") is not None:
            raise QuestionError(f"{most.key.replace('arg', '')}_by takes two arguments here")
    for lateral in tree.find_all(exp.Lateral):
        if not isinstance(lateral.this, _EXPLODES):
            raise QuestionError(
                f"LATERAL {lateral.this.sql('spark')}: only explode and similar functions are allowed"
            )
    for table in tree.find_all(exp.Table):
        name = table.name.lower() if isinstance(table.this, exp.Identifier) and not table.db else None
        if (name not in NAMES and name not in _named_around(table)) or table.args.get("version"):
            asked = table.copy()
            asked.set("alias", None)
            name = asked.sql("spark", comments=False, identify=False).replace("`", "")
            raise QuestionError(f"no table or view {name}: {suggestion(name, NAMES, 'straggler describe')}")


def _named_around(table: exp.Table) -> set[str]:
    """Return names defined by the WITH clauses around a table, which hide tables of the same name."""
    names: list[exp.Expr] = []
    inner: exp.Expr = table
    while (outer := inner.parent) is not None:
        if isinstance(outer, exp.With):  # in a WITH clause, a query sees the names that are defined before it
            names += outer.expressions[: None if outer.recursive else outer.expressions.index(inner)]
        elif (clause := outer.args.get("with_")) is not None and clause is not inner:
            names += clause.expressions
        inner = outer
    return {each.alias.lower() for each in names}


def _first(error: SqlglotError) -> str:
    if not (errors := getattr(error, "errors", ())):
        return str(error).splitlines()[0]
    first = errors[0]
    said = first["description"]
    said = "not SQL: something is missing" if "<class" in said else said  # without names of classes
    said += f": line {first['line']}, column {first['col']}, at {first['highlight']!r}"
    until = first["start_context"] + first["highlight"]
    for word in reversed(re.findall(r"\w+", until.upper())):
        near = get_close_matches(word, _WORDS, n=1, cutoff=_LIKE)
        if near and word not in _WORDS and abs(len(word) - len(near[0])) <= 1:
            return f"{said}: did you mean {near[0]}?"
    return str(said)


def no_column(name: str, reads: Sequence[str], columns: Sequence[str]) -> str:
    """Return an error for an unknown column, which names the tables that have it, or else the closest column.

    reads : tables and views that the question names
    columns : names of their columns
    """
    owners = [table.name for table in TABLES.values() if name.lower() in table.column_names]
    if 0 < len(owners) <= _FEW and not set(owners) <= set(reads):
        return f"no column {name} in {', '.join(reads) or 'the query'}: {', '.join(owners)} have it"
    of = reads[0] if len(reads) == 1 else "NAME"
    return f"no column {name}: {suggestion(name, list(dict.fromkeys(columns)), f'straggler describe {of}')}"


def first_line(error: Exception) -> str:
    """Return the first line of an engine's error message, without advice to change settings."""
    return _SETTINGS.sub("", next(iter(str(error).strip().splitlines()), ""))
