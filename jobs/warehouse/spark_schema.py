"""A table's columns as Spark types."""

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from schemas.table import Table


def spark_schema(table: Table) -> StructType:
    """Columns of a table as Spark types."""
    return from_arrow_schema(table.arrow_schema)
