"""Checks of number lists by their writer: the SQL gate's conditions, at the speed of numpy."""

import numpy as np
import pyarrow as pa

from schemas.table import Column, Table


def arrays_valid(table: Table, rows: pa.Table) -> bool:
    """Whether all lists of numbers in `rows` keep the rules of the table's columns and of its `alike`.

    The rest of what must hold is Table.expectations_of_scalars.
    """
    columns = [column for column in table.columns if column.is_numbers]
    lists = {column.name: rows.column(column.name).combine_chunks() for column in columns}
    if not all(_valid(column, lists[column.name]) for column in columns):
        return False
    lengths = [np.diff(lists[name].offsets.to_numpy()) for name in table.alike]
    return all(np.array_equal(lengths[0], others) for others in lengths[1:])


def _valid(column: Column, lists: pa.ListArray) -> bool:
    numbers = lists.flatten()
    if (lists.null_count and not column.nullable) or numbers.null_count:
        return False
    if not len(numbers):
        return True
    values = numbers.to_numpy()
    low, high = values.min(), values.max()  # NaN where one is
    least = -np.inf if column.minimum is None else column.minimum
    most = np.inf if column.maximum is None else column.maximum
    return bool(np.isfinite(low) and np.isfinite(high) and low >= least and high <= most)
