"""The data dictionary: an entry for each column of each table, made from the declarations."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import pyarrow as pa

from schemas.queries import QUERIES
from schemas.sql_files import first_sentence
from schemas.table import Column
from schemas.tables import TABLES
from schemas.views import VIEWS


class Entry(NamedTuple):
    """One column's entry in the data dictionary."""

    table: str
    column: str
    type: str
    unit: str
    is_key: bool
    is_nullable: bool
    meaning: str


def entries() -> list[Entry]:
    """Return an entry for every column of every table, table by table."""
    return [
        Entry(
            table=table.name,
            column=column.name,
            type=type_name(column.type),
            unit=column.unit or "",
            is_key=column.name in table.grain,
            is_nullable=column.nullable,
            meaning=_with_bounds(column),
        )
        for table in TABLES.values()
        for column in table.columns
    ]


def listed() -> Iterator[tuple[str, str, str, str]]:
    """Yield name, kind, key and the first sentence of the meaning of every table, view and named query."""
    for table in TABLES.values():
        yield table.name, "table", ", ".join(table.grain), first_sentence(table.meaning)
    for kind, files in (("view", VIEWS), ("named query", QUERIES)):
        for file in files.values():
            yield file.name, kind, "", first_sentence(file.meaning)


def type_name(kind: pa.DataType) -> str:
    """Return a type as SQL spells it."""
    if isinstance(kind, pa.ListType):
        return f"array<{type_name(kind.value_type)}>"
    if isinstance(kind, pa.StructType):
        return f"struct<{','.join(f'{field.name}:{type_name(field.type)}' for field in kind)}>"
    if isinstance(kind, pa.MapType):
        return f"map<{type_name(kind.key_type)},{type_name(kind.item_type)}>"
    return _SQL_NAMES[kind]


_SQL_NAMES: Final = {
    pa.int8(): "tinyint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.string(): "string",
    pa.date32(): "date",
    pa.timestamp("us", tz="UTC"): "timestamp",
}


def _with_bounds(column: Column) -> str:
    """Return a column's meaning, followed by its allowed values and its bounds."""
    bounds = []
    if column.allowed is not None:
        bounds.append(f"one of {', '.join(column.allowed)}")
    if column.minimum is not None and column.unit != "count":
        bounds.append(f"at least {column.minimum:g}")
    if column.maximum is not None:
        bounds.append(f"at most {column.maximum:g}")
    return "; ".join([column.meaning, *bounds])
