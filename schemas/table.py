"""Classes that declare tables: columns with types, units and meanings, and rules for rows.

Gates, writers and the data dictionary use these declarations; tables.py lists all tables.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import pyarrow as pa

from schemas.vocabulary import UNIT_KEY

Severity: TypeAlias = Literal["refuses", "warns"]
"""Effect of a broken rule: the phase publishes nothing (refuses), or publishes and warns (warns)."""


class SchemaError(ValueError):
    """Raised for invalid declarations, and for data that differ from their table; lists all differences."""


@dataclass(frozen=True)
class Expectation:
    """An SQL condition that every row must meet; a row for which the condition is null breaks the rule.

    The meaning of a rule that only warns also says which figures stay right if the rule is broken.
    """

    name: str
    condition: str
    meaning: str
    severity: Severity = "refuses"


@dataclass(frozen=True)
class Column:
    """A column of a table; `minimum` and `maximum` are inclusive, and apply to the elements of a list.

    Rules for the fields of structs have to be declared as expectations of the table.
    """

    name: str
    meaning: str
    type: pa.DataType
    unit: str | None = None
    nullable: bool = False
    minimum: float | None = None
    maximum: float | None = None
    allowed: tuple[str, ...] | None = None

    @property
    def is_numbers(self) -> bool:
        """Whether the column's values are lists of numbers."""
        element = self.type.value_type if isinstance(self.type, pa.ListType) else pa.null()
        return bool(pa.types.is_integer(element) or pa.types.is_floating(element))

    def expectations(self) -> tuple[Expectation, ...]:
        """Return the rules that follow from nullability, type, bounds and allowed values of the column."""
        found = []
        if not self.nullable:
            found.append(Expectation(f"{self.name}_not_null", f"{self.name} IS NOT NULL", "never null"))
        if isinstance(self.type, pa.ListType) and not pa.types.is_struct(self.type.value_type):
            found += self._element_expectations(self.type.value_type)
        elif isinstance(self.type, pa.MapType) and pa.types.is_floating(self.type.item_type):
            bounds = "value > double('-Infinity') AND value < double('Infinity')"
            condition = f"forall(map_values({self.name}), value -> coalesce({bounds}, false))"
            found.append(self._unless_null("values_finite", condition, "no value is null, infinite or NaN"))
        else:
            found += self._scalar_expectations()
        return tuple(found)

    def _scalar_expectations(self) -> list[Expectation]:
        found = []
        if pa.types.is_floating(self.type):
            bounds = f"{self.name} > double('-Infinity') AND {self.name} < double('Infinity')"
            found.append(self._unless_null("finite", bounds, "neither infinite nor NaN"))
        bounds, meaning = self._bounds(self.name, self.name)
        if bounds:
            found.append(self._unless_null("in_range", bounds, meaning))
        if self.allowed is not None:
            names = sql_strings(self.allowed)
            found.append(self._unless_null("allowed", f"{self.name} IN ({names})", f"one of {names}"))
        return found

    def _element_expectations(self, element: pa.DataType) -> list[Expectation]:
        """Return conditions on list elements, with array_min and array_max where possible.

        Lambdas take ten times as long. Spark sorts NaN as the greatest number, so the extremes of a list show
        whether any element is NaN or out of bounds.
        """
        low, high = f"array_min({self.name})", f"array_max({self.name})"
        without_nulls = f"forall({self.name}, element -> element IS NOT NULL)"
        found = [self._unless_null("elements_not_null", without_nulls, "no element is null")]
        if pa.types.is_floating(element):
            bounds = f"{low} > double('-Infinity') AND {high} < double('Infinity')"
            found.append(self._unless_empty("elements_finite", bounds, "no element is infinite or NaN"))
        bounds, meaning = self._bounds(low, high)
        if bounds:
            found.append(self._unless_empty("elements_in_range", bounds, f"every element {meaning}"))
        return found

    def _bounds(self, low: str, high: str) -> tuple[str, str]:
        """Return an SQL condition that low and high are within the column's bounds, and its wording."""
        parts = []
        if self.minimum is not None:
            parts.append((f"{low} >= {self.minimum!r}", f"at least {self.minimum:g}"))
        if self.maximum is not None:
            parts.append((f"{high} <= {self.maximum!r}", f"at most {self.maximum:g}"))
        return " AND ".join(sql for sql, _ in parts), " and ".join(words for _, words in parts)

    def _unless_null(self, what: str, condition: str, meaning: str) -> Expectation:
        if self.nullable:
            condition = f"{self.name} IS NULL OR ({condition})"
        return Expectation(f"{self.name}_{what}", condition, meaning)

    def _unless_empty(self, what: str, condition: str, meaning: str) -> Expectation:
        return self._unless_null(what, f"size({self.name}) = 0 OR ({condition})", meaning)


@dataclass(frozen=True)
class Table:
    """A table of the warehouse; `grain` is its primary key, in which null counts as a value.

    alike : columns of lists that are equally long within a row
    """

    name: str
    meaning: str
    grain: tuple[str, ...]
    columns: tuple[Column, ...]
    expectations: tuple[Expectation, ...] = ()
    partition_by: tuple[str, ...] = ("log_date",)
    alike: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = self.column_names
        twice = sorted({name for name in names if names.count(name) > 1})
        unknown = [name for name in (*self.grain, *self.partition_by) if name not in names]
        if twice or unknown:
            raise SchemaError(
                f"table {self.name}: columns declared twice {twice}, key columns not declared {unknown}"
            )

    @property
    def column_names(self) -> tuple[str, ...]:
        """Column names in the order in which they are stored."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """Arrow schema of all columns, each of them nullable.

        If a schema forbids nulls, Spark removes IS NOT NULL checks as redundant, and a gate finds no null.
        So only gates enforce Column.nullable.
        """
        return pa.schema([pa.field(column.name, column.type) for column in self.columns])

    @cached_property
    def value_schema(self) -> pa.Schema:
        """Arrow schema without log_date, job_id and run_id, for functions that compute rows of one unit."""
        return pa.schema([field for field in self.arrow_schema if field.name not in UNIT_KEY])

    def all_expectations(self) -> tuple[Expectation, ...]:
        """Return all rules for single rows, those for lists of numbers last."""
        of_arrays = [each for column in self.columns if column.is_numbers for each in column.expectations()]
        if self.alike:
            first, *others = self.alike
            condition = " AND ".join(f"size({name}) = size({first})" for name in others)
            meaning = f"the lists {', '.join(self.alike)} are equally long"
            of_arrays.append(Expectation("arrays_equally_long", condition, meaning))
        return (*self.expectations_of_scalars(), *of_arrays)

    def expectations_of_scalars(self) -> tuple[Expectation, ...]:
        """Return all rules except those about lists of numbers (`is_numbers`) and about equal lengths."""
        of_columns = [
            each for column in self.columns if not column.is_numbers for each in column.expectations()
        ]
        return (*of_columns, *self.expectations)

    def differences(self, schema: pa.Schema) -> list[str]:
        """Return a sentence for each way in which a schema differs from the table's columns and types."""
        found = []
        for field in self.arrow_schema:
            places = schema.get_all_field_indices(field.name)
            if not places:
                found.append(f"column {field.name} is missing (wanted {field.type})")
            elif len(places) > 1:
                found.append(f"column {field.name} occurs {len(places)} times")
            elif not same_type(field.type, schema.field(places[0]).type):
                found.append(f"column {field.name} is {schema.field(places[0]).type} (wanted {field.type})")
        unknown = sorted(set(schema.names) - set(self.column_names))
        found += [f"column {name} is not in the table" for name in unknown]
        return found

    def check(self, schema: pa.Schema) -> None:
        """Raise SchemaError with all differences unless `schema` matches the table."""
        differences = self.differences(schema)
        if differences:
            raise SchemaError(f"table {self.name}: {len(differences)} differences: {'; '.join(differences)}")


def same_type(wanted: pa.DataType, got: pa.DataType) -> bool:
    """Return whether two types are equal, ignoring nullability and the names of fields in lists and maps."""
    if pa.types.is_list(wanted) and pa.types.is_list(got):
        return same_type(wanted.value_type, got.value_type)
    if pa.types.is_map(wanted) and pa.types.is_map(got):
        return same_type(wanted.key_type, got.key_type) and same_type(wanted.item_type, got.item_type)
    return bool(wanted == got)


def sql_strings(names: Sequence[str]) -> str:
    """Return names as a comma-separated list of SQL string literals."""
    return ", ".join("'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'" for name in names)
