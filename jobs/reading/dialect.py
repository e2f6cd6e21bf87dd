"""Spark's SQL put over into DuckDB's: by sqlglot, and here where that means something else to DuckDB.

Rules come from asking both engines the same (tests/jobs/reading/test_engines.py). What cannot be put over
is an error: an answer that is silently another one would be worse.
"""

from collections.abc import Callable, Mapping
from typing import Final

from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError

WHOLE: Final = "CREATE MACRO whole(x DOUBLE) AS trunc(x), (x BIGINT) AS x, (x) AS x"
"""DuckDB rounds where a number becomes a whole one; Spark cuts off its decimals."""

_UNLIKE: Final = (
    exp.ArrayDistinct,
    exp.Format,
    exp.Kurtosis,
    exp.MonthsBetween,
    exp.Skewness,
    exp.Typeof,
)
"""Functions whose results differ."""
_UNLIKE_BY_NAME: Final = {"printf", "weekday"}


def put_over(question: exp.Expr) -> str:
    """Return a question, parsed as Spark's, as SQL of DuckDB's. Raises SqlglotError without one."""
    tree = question.copy()
    _name_columns(tree)
    for each in reversed(list(tree.walk())):  # the inmost first
        if isinstance(each, _UNLIKE) or (isinstance(each, exp.Anonymous) and each.name in _UNLIKE_BY_NAME):
            raise SqlglotError(f"{each.sql('spark')} means something else to DuckDB")
        rule = _RULES.get(type(each))
        if rule is not None:
            rule(each)
    return tree.sql("duckdb", comments=False, unsupported_level=ErrorLevel.RAISE)


def _name_columns(tree: exp.Expr) -> None:
    """Name columns without a separate name as they were written."""
    for select in tree.find_all(exp.Select):
        for column in list(select.expressions):
            if not column.output_name and not column.is_star:
                name = column.sql("spark", comments=False, normalize_functions="lower").replace("`", "")
                column.replace(exp.alias_(column.copy(), name, quoted=True))


def _array_position(each: exp.Expr) -> None:
    """Give 0 for what an array lacks, where DuckDB gives null."""
    known = exp.and_(each.this.is_(exp.null()).not_(), each.expression.is_(exp.null()).not_())
    place = exp.func("coalesce", each.copy(), exp.Literal.number(0))
    each.replace(exp.Case().when(known, place))


def _as_date(each: exp.Expr) -> None:
    """Keep a date a date, where DuckDB makes it a timestamp."""
    each.replace(exp.Cast(this=each.copy(), to=exp.DataType.build("date")))


def _bracket(each: exp.Expr) -> None:
    is_known = all(place.is_int or place.is_string for place in each.expressions)
    if not is_known and not each.args.get("offset"):  # is no element_at
        raise SqlglotError("x[i]: write element_at(x, i), which counts from 1")


def _cast(each: exp.Expr) -> None:
    value, to = each.this, each.args["to"]
    if each.args.get("safe"):  # was try_cast
        return
    if to.this in exp.DataType.INTEGER_TYPES and not isinstance(value, exp.Literal):
        value = exp.func("trunc" if value.find(exp.AggFunc) else "whole", value)  # no overload takes those
    each.replace(exp.Cast(this=value, to=to))


def _collected(each: exp.Expr) -> None:
    """Collect an empty list of no rows, where DuckDB gives null."""
    whole = each.parent if isinstance(each.parent, exp.Filter) else each
    if not isinstance(whole.parent, exp.Window):
        whole.replace(exp.func("coalesce", whole.copy(), exp.array()))


def _count_if(each: exp.Expr) -> None:
    """Count no rows as 0, where DuckDB gives null."""
    each.replace(exp.Count(this=exp.Case().when(each.this, "1")))


def _day_of_week(each: exp.Expr) -> None:
    """Count from 1, Sunday, where DuckDB counts from 0."""
    each.replace(exp.paren(each.copy() + 1))


def _division(each: exp.Expr) -> None:
    each.args.pop("safe", None)  # by zero: an error


def _greatest_struct(each: exp.Expr) -> None:
    if isinstance(each.this, exp.Struct):
        raise SqlglotError("max or min of a struct: write max_by or min_by")


def _is_nan(each: exp.Expr) -> None:
    each.replace(exp.func("coalesce", each.copy(), exp.false()))


def _lambda(steps: exp.Expr) -> None:
    """Take one from the places that a lambda is given: DuckDB counts from one, Spark from zero."""
    if not isinstance(steps.parent, exp.Transform | exp.ArrayFilter):
        return
    for place in steps.expressions[1:]:
        for each in list(steps.this.find_all(exp.Identifier)):
            if each.name == place.name and not isinstance(each.parent, exp.Column | exp.Dot):
                each.replace(exp.paren(exp.Sub(this=each.copy(), expression=exp.Literal.number(1))))


def _like(each: exp.Expr) -> None:
    """Let a backslash escape, which it does not do in DuckDB."""
    pattern = each.expression
    if not pattern.is_string or "\\" in pattern.name:
        each.replace(exp.Escape(this=each.copy(), expression=exp.Literal.string("\\")))


def _outer(each: exp.Expr) -> None:
    """Keep a row whose list is empty or null."""
    if not each.args.get("outer"):
        return
    if type(each.this) is not exp.Explode:
        raise SqlglotError("LATERAL VIEW OUTER is put over of explode alone")
    values = each.this.this
    elements = exp.Case().when(exp.func("array_size", values) > 0, values).else_(exp.array("NULL"))
    each.this.set("this", elements)


def _quantile(each: exp.Expr) -> None:
    each.replace(exp.func("quantile_cont", each.this, each.args["quantile"]))


def _sequence(each: exp.Expr) -> None:
    """Count down where the end comes first."""
    if each.args.get("step") is None:
        up = exp.LTE(this=each.args["start"].copy(), expression=each.args["end"].copy())
        each.set("step", exp.Case().when(up, "1").else_("-1"))


_RULES: Final[Mapping[type, Callable[[exp.Expr], None]]] = {
    exp.AddMonths: _as_date,
    exp.ArrayAgg: _collected,
    exp.ArrayPosition: _array_position,
    exp.ArrayUniqueAgg: _collected,
    exp.Bracket: _bracket,
    exp.Cast: _cast,
    exp.CountIf: _count_if,
    exp.DateTrunc: _as_date,
    exp.DayOfWeek: _day_of_week,
    exp.Div: _division,
    exp.GenerateSeries: _sequence,
    exp.ILike: _like,
    exp.IsNan: _is_nan,
    exp.Lambda: _lambda,
    exp.Lateral: _outer,
    exp.Like: _like,
    exp.Max: _greatest_struct,
    exp.Min: _greatest_struct,
    exp.Quantile: _quantile,
    exp.TryCast: _cast,
    exp.TsOrDsAdd: _as_date,
}
