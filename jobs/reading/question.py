"""A question: one SELECT in Spark SQL over tables and views, checked and transpiled for its engine.

What an engine gets is never the text that was given: it is parsed, checked and written anew.
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
"""Functions that call Java methods by name, or that open a file with a schema."""
_WORDS: Final = ("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "JOIN")
_LIKE: Final = 0.75
"""Least similarity of a misspelt word of SQL: FORM for FROM has it."""
_FEW: Final = 5
"""Up to this many tables that have a missing column are named."""
_SETTINGS: Final = re.compile(r"\.? (?:Use TRY\(|If necessary set \").*")
"""An engine's advice to change a setting, which no question can."""
_EXPLODES: Final = (exp.Explode, exp.Inline, exp.Stack, exp.Subquery)
"""Functions that LATERAL may call; a table function could read anything."""

logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # what it does not understand is an error here


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
        """Return the quoted texts of the question."""
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
            return "SHOW TABLES FROM memory"  # tables passed to the connection are temporary ones
        try:
            return to_duckdb(self.tree)
        except SqlglotError as error:
            raise QuestionError(f"{first_line(error)} (it may work with --engine spark)") from None
        except RecursionError:
            raise QuestionError(_TOO_DEEP) from None


@lru_cache(maxsize=64)  # a page's questions are first prepared, then asked
def question(sql: str) -> Question:
    """Parse and check a question. Raises QuestionError unless it only reads existing tables and views."""
    if _SHOW_TABLES.fullmatch(sql):
        return Question(exp.Command(this="SHOW", expression="TABLES"))
    tree = _read(sql)
    for hint in list(tree.find_all(exp.Hint)):
        hint.pop()
    _check(tree)
    asked = Question(tree)
    _check(_read(asked.for_spark))  # what an engine gets is looked at too, not only what was typed
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
    """Raise QuestionError for a statement that does more than read the warehouse."""
    if next(tree.find_all(*_CHANGES), None) is not None:
        raise QuestionError(_ONLY)
    for call in tree.find_all(exp.Anonymous):
        if call.name.lower() in _REFUSED:
            raise QuestionError(f"{call.name}: this function is not allowed")
    for most in tree.find_all(exp.ArgMax, exp.ArgMin):
        if (
            most.args.get("count") is not None
        ):  # another meaning in DuckDB, and sqlglot leaves it out for Spark
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
        if isinstance(outer, exp.With):  # a name is known after its own definition
            names += outer.expressions[: None if outer.recursive else outer.expressions.index(inner)]
        elif (clause := outer.args.get("with_")) is not None and clause is not inner:
            names += clause.expressions
        inner = outer
    return {each.alias.lower() for each in names}


def _first(error: SqlglotError) -> str:
    """Describe the first SQL error and its position on one line."""
    for each in getattr(error, "errors", ()):
        at = f"line {each['line']}, column {each['col']}, at {each['highlight']!r}"
        said = each["description"]
        said = "not SQL: something is missing" if "<class" in said else said  # sqlglot's names of its parts
        return f"{said}: {at}{_misspelt(each['start_context'] + each['highlight'])}"
    return str(error).splitlines()[0]


def _misspelt(text: str) -> str:
    """Suggest the SQL word that the last misspelt word of a text resembles; empty without such a word."""
    for word in reversed(re.findall(r"\w+", text.upper())):
        near = get_close_matches(word, _WORDS, n=1, cutoff=_LIKE)
        if near and word not in _WORDS and abs(len(word) - len(near[0])) <= 1:
            return f": did you mean {near[0]}?"
    return ""


def no_column(name: str, reads: Sequence[str], columns: Sequence[str]) -> str:
    """Suggest the closest column, or the few tables that have the unknown column.

    reads : tables and views that the question names
    columns : those that it could have named
    """
    owners = [table.name for table in TABLES.values() if name.lower() in table.column_names]
    if 0 < len(owners) <= _FEW and not set(owners) <= set(reads):
        return f"no column {name} in {', '.join(reads) or 'the query'}: {', '.join(owners)} have it"
    of = reads[0] if len(reads) == 1 else "NAME"
    return f"no column {name}: {suggestion(name, list(dict.fromkeys(columns)), f'straggler describe {of}')}"


def first_line(error: Exception) -> str:
    """Return the first line of an engine's error message, without advice that no question can follow."""
    return _SETTINGS.sub("", next(iter(str(error).strip().splitlines()), ""))
