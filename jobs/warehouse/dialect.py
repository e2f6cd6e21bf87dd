"""Transpiler from Spark SQL to DuckDB: sqlglot, with rules for expressions that DuckDB evaluates differently.

The rules were found by running the same queries on both engines (tests/jobs/reading/test_engines.py). An
expression that cannot be transpiled is an error, because a silently different answer would be worse.
"""

from collections.abc import Callable, Mapping
from typing import Final

from sqlglot import exp, parse_one
from sqlglot.errors import ErrorLevel, SqlglotError

WHOLE: Final = "CREATE MACRO whole(x DOUBLE) AS trunc(x), (x BIGINT) AS x, (x) AS x"
"""Macro for casts of a DOUBLE to an integer: DuckDB's own cast rounds, Spark's truncates."""

SETTINGS: Final = (
    "SET TimeZone = 'UTC'",
    "SET parquet_metadata_cache = true",
    "SET ieee_floating_point_ops = false",  # division by zero is an error, as in Spark
)
"""Statements that every new DuckDB connection runs."""

_UNLIKE: Final = exp.ArrayDistinct | exp.Format | exp.Kurtosis | exp.MonthsBetween | exp.Skewness | exp.Typeof
"""Functions that are refused, because their results in Spark and DuckDB differ."""
_UNLIKE_BY_NAME: Final = {"printf", "weekday", "date_part", "datepart", "hash"}


def to_duckdb(question: exp.Expr) -> str:
    """Transpile a question parsed as Spark SQL to DuckDB SQL. Raises SqlglotError if this is impossible."""
    tree = question.copy()
    for select in tree.find_all(exp.Select):
        for column in list(select.expressions):
            if not column.output_name and not column.is_star:  # named by its SQL text, as in Spark
                name = column.sql("spark", comments=False, normalize_functions="lower").replace("`", "")
                column.replace(exp.alias_(column.copy(), name, quoted=True))
    for each in reversed(list(tree.walk())):  # the inmost first
        is_named = isinstance(each, exp.Anonymous) and each.name.lower() in _UNLIKE_BY_NAME
        if is_named or isinstance(each, _UNLIKE):
            raise SqlglotError(f"{each.sql('spark')} has another meaning in DuckDB")
        if type(each) in _OTHERWISE:
            each.replace(_OTHERWISE[type(each)](each.copy()))
        elif type(each) in _RULES:
            _RULES[type(each)](each)
    return tree.sql("duckdb", comments=False, unsupported_level=ErrorLevel.RAISE)


def condition(sql: str) -> str:
    """Transpile a boolean expression over columns. Raises SqlglotError if this is impossible."""
    return to_duckdb(exp.paren(parse_one(sql, read="spark"), copy=False))  # rules cannot replace a root


def _bracket(each: exp.Expr) -> None:
    is_known = all(place.is_int or place.is_string for place in each.expressions)
    if not is_known and not each.args.get("offset"):  # element_at has an offset
        raise SqlglotError("x[i]: write element_at(x, i), which counts from 1")


def _cast(each: exp.Expr) -> None:
    value, to = each.this, each.args["to"]
    if each.args.get("safe"):  # was try_cast
        return
    if to.this in exp.DataType.INTEGER_TYPES and not isinstance(value, exp.Literal):
        value = exp.func("trunc" if value.find(exp.AggFunc) else "whole", value)  # `whole` takes no aggregate
    each.replace(exp.Cast(this=value, to=to))


def _collected(each: exp.Expr) -> None:
    """Make collect_list and collect_set return [] over no rows, as in Spark; DuckDB returns null."""
    whole = each.parent if isinstance(each.parent, exp.Filter) else each
    if not isinstance(whole.parent, exp.Window):
        whole.replace(exp.func("coalesce", whole.copy(), exp.array()))


def _greatest_struct(each: exp.Expr) -> None:
    if isinstance(each.this, exp.Struct):
        raise SqlglotError("max or min of a struct: write max_by or min_by")


def _lambda(steps: exp.Expr) -> None:
    """Subtract one from index arguments of lambdas: DuckDB counts from one, Spark from zero."""
    if not isinstance(steps.parent, exp.Transform | exp.ArrayFilter):
        return
    for place in steps.expressions[1:]:
        for each in list(steps.this.find_all(exp.Identifier)):
            if each.name == place.name and not isinstance(each.parent, exp.Column | exp.Dot):
                each.replace(exp.paren(exp.Sub(this=each.copy(), expression=exp.Literal.number(1))))


def _outer(each: exp.Expr) -> None:
    """Keep rows whose list is empty or null, as LATERAL VIEW OUTER does."""
    if not each.args.get("outer"):
        return
    if type(each.this) is not exp.Explode:
        raise SqlglotError("LATERAL VIEW OUTER can be transpiled for explode only")
    values = each.this.this
    elements = exp.Case().when(exp.func("array_size", values) > 0, values).else_(exp.array("NULL"))
    each.this.set("this", elements)


def _array_position(each: exp.Expr) -> exp.Expr:
    known = exp.and_(each.this.is_(exp.null()).not_(), each.expression.is_(exp.null()).not_())
    return exp.Case().when(known.copy(), exp.func("coalesce", each, exp.Literal.number(0)))


def _extract(each: exp.Expr) -> None:
    if each.name.upper() in {"DOW", "DAYOFWEEK", "WEEKDAY"}:
        raise SqlglotError("extract of a day of the week: write dayofweek(x)")


def _date(each: exp.Expr) -> exp.Expr:
    return exp.Cast(this=each, to=exp.DataType.build("date"))


def _by_name(each: exp.Expr) -> exp.Expr:
    """Rewrite `forall`, which DuckDB lacks, as a CASE; leave other functions unchanged.

    As in Spark: false if the lambda is false for any element, else null if it is null for any, else true.
    """
    if each.name.lower() != "forall":
        return each
    holds = exp.Anonymous(this="list_transform", expressions=each.expressions)
    breaks = exp.func("list_contains", holds, exp.false(), dialect="duckdb")
    known = exp.Anonymous(this="list_count", expressions=[holds.copy()]).eq(exp.func("len", holds.copy()))
    return exp.Case().when(breaks, exp.false()).when(known, exp.true())


def _like(each: exp.Expr) -> exp.Expr:
    is_plain = each.expression.is_string and "\\" not in each.expression.name
    return each if is_plain else exp.Escape(this=each, expression=exp.Literal.string("\\"))


def _sequence(each: exp.Expr) -> exp.Expr:
    if each.args.get("step") is None:
        up = exp.LTE(this=each.args["start"].copy(), expression=each.args["end"].copy())
        each.set("step", exp.Case().when(up, "1").else_("-1"))
    return each


def _without_safe(each: exp.Expr) -> exp.Expr:
    each.args.pop("safe", None)
    return each


_OTHERWISE: Final[Mapping[type, Callable[[exp.Expr], exp.Expr]]] = {
    exp.Anonymous: _by_name,
    exp.AddMonths: _date,  # a date stays a date, where DuckDB makes it a timestamp
    exp.ArgMax: lambda each: exp.func("arg_max_null", each.this, each.expression),  # arg_max skips nulls
    exp.ArgMin: lambda each: exp.func("arg_min_null", each.this, each.expression),
    exp.ArrayPosition: _array_position,  # of an absent element: 0, DuckDB null
    exp.CountIf: lambda each: exp.Count(this=exp.Case().when(each.this, "1")),  # over no rows: 0
    exp.DateTrunc: _date,
    exp.DayOfWeek: lambda each: exp.paren(each + 1),  # from 1, Sunday, where DuckDB counts from 0
    exp.Div: _without_safe,  # division by zero is an error, not null
    exp.GenerateSeries: _sequence,  # counts down if start > end
    exp.ILike: _like,
    exp.IsNan: lambda each: exp.func("coalesce", each, exp.false()),
    exp.Like: _like,  # a backslash escapes, which it does not do in DuckDB
    exp.Quantile: lambda each: exp.func("quantile_cont", each.this, each.args["quantile"]),
    exp.TsOrDsAdd: _date,
}
"""Functions that return what replaces an expression, by its type."""

_RULES: Final[Mapping[type, Callable[[exp.Expr], None]]] = {
    exp.ArrayAgg: _collected,
    exp.ArrayUniqueAgg: _collected,
    exp.Bracket: _bracket,
    exp.Cast: _cast,
    exp.Extract: _extract,
    exp.Lambda: _lambda,
    exp.Lateral: _outer,
    exp.Max: _greatest_struct,
    exp.Min: _greatest_struct,
    exp.TryCast: _cast,
}
"""Functions that change an expression in its tree, or raise SqlglotError, by its type."""
