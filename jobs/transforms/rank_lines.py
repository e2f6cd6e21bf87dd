"""Lines of rank logs, parsed by Spark; those that it cannot vouch for are marked as suspect.

Spark's JSON parser is lenient without a word: it takes the first of several objects on a line, the last
of two equal keys, 7 as "7". A line counts as a row only if every such case is excluded; what is not certain
is left to the strict reading of udfs.rank_log_lines, so that plain lines cost no Python.
"""

from collections.abc import Iterator
from functools import reduce
from operator import and_, or_
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from schemas.vocabulary import OP_CODES, RANK_LOG_FORMAT, UNIT_KEY
from udfs.landed_rows import STATE_BLANK, STATE_ROW, STATE_SUSPECT
from udfs.rank_log_lines import COORDINATES, INDEXES, KNOWN, OPTIONAL, REQUIRED, TIMES

_TYPES: Final = {
    **dict.fromkeys(("format", "job_id", "run_id", "host"), "string"),
    **dict.fromkeys(("step", "t0_us"), "bigint"),
    "op": "array<string>",
    **dict.fromkeys(TIMES, "array<double>"),
    **dict.fromkeys(INDEXES, "array<int>"),
}
_LINE: Final = ", ".join(f"{name} {_TYPES.get(name, 'int')}" for name in KNOWN)
_STRICT: Final = {"mode": "PERMISSIVE", "allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
_NOT_SURELY_TEXT: Final = r"^[-0-9\[{]|^true$|^false$|[?\x{FFFD}]"
"""Text that Spark may have made of a number, a truth value, an array, an object, or of broken characters."""
_RARE: Final = -(2**31)
"""An integer that is asked for to learn whether an array holds nulls; lines that do hold it are suspect."""

_STORED: Final = ("step", *COORDINATES, "host", "gpu", "t0_us", *TIMES, *INDEXES)


def landed_lines(lines: DataFrame, files: DataFrame) -> DataFrame:
    """Parse lines; columns of landed_rows.LANDED_SCHEMA, and `bucket`.

    lines : value, path, block_start, position
    files : path, the unit's key, source_file, bucket, landed_rows.LIMITS; lines of other files are dropped
    """
    parsed = lines.join(F.broadcast(files), "path").select(
        *UNIT_KEY,
        *(name for name in files.columns if name not in {"path", *UNIT_KEY}),
        "block_start",
        "position",
        "value",
        F.from_json("value", _LINE, _STRICT).alias("line"),
        F.json_object_keys("value").alias("keys"),
    )
    # Beside the lambda in `op` Spark makes a method of each condition. With all of them in its loop over the
    # rows, the loop would be longer than the 8,000 bytes that Java compiles, and everything twice as slow.
    checked = parsed.withColumns(
        {
            "op": F.transform("line.op", _code),
            "is_plain_object": reduce(and_, _object_conditions()),
            "has_plain_values": reduce(and_, _value_conditions()),
            "has_plain_arrays": reduce(and_, _array_conditions()),
        }
    )
    judged = checked.withColumn("state", _state())
    return judged.select(
        *UNIT_KEY,
        "source_file",
        "bucket",
        "block_start",
        "position",
        "op",
        *(F.col(f"line.{name}").alias(name) for name in _STORED),
        "state",
        F.when(F.col("state") == STATE_SUSPECT, F.col("value").cast("binary")).alias("suspect"),
        *(F.lit(None).cast("string").alias(name) for name in ("reason", "detail", "text")),
    )


def _code(op: Column) -> Column:
    codes = F.create_map(*(F.lit(each) for name, code in OP_CODES.items() for each in (name, code)))
    return F.try_element_at(codes, op).cast("tinyint")


def _state() -> Column:
    is_blank = ~F.col("value").startswith("{") & F.col("value").rlike(r"^\s*$")
    is_plain = (
        F.col("is_plain_object") & F.col("has_plain_values") & F.col("has_plain_arrays") & _has_good_ops()
    )
    return F.when(is_blank, STATE_BLANK).when(is_plain, STATE_ROW).otherwise(STATE_SUSPECT)


def _has_good_ops() -> Column:
    """Whether there are as many ops as starts, all of them known; the code of an unknown one is null."""
    return (F.size("op") == F.size("line.start_us")) & ~F.array_contains("op", F.lit(-1).cast("tinyint"))


def _object_conditions() -> Iterator[Column]:
    """Yield what must be true of the object as a whole; null counts as not true, here and below."""
    value, line, keys = F.col("value"), F.col("line"), F.col("keys")
    # Nothing stands behind the object, as long as none is nested: its first brace to close is the line's end.
    object_length = F.octet_length(F.substring_index(value, "}", 1))
    yield value.startswith("{") & (object_length == F.octet_length(value) - _end_length(value))
    # Every key is known and there once.
    yield F.size(F.array_intersect(keys, F.array(*map(F.lit, KNOWN)))) == F.size(keys)
    yield line["format"] == RANK_LOG_FORMAT
    yield from (line[name] == F.col(name) for name in ("job_id", "run_id"))
    yield from (_is_surely_text(name) for name in ("job_id", "run_id", "host"))


def _value_conditions() -> Iterator[Column]:
    """Yield what must be true of single values."""
    line = F.col("line")
    yield from (line[name].isNotNull() for name in REQUIRED)
    yield from (_is_absent_or_good(name) for name in OPTIONAL)
    yield (F.coalesce(F.col("tp_size"), F.lit(1)) == 1) | line["tp_rank"].isNotNull()
    for name, size in COORDINATES.items():
        is_below = F.coalesce(line[name] < F.col(size), F.lit(col=True))  # null: no manifest tells the size
        yield line[name].isNull() | ((line[name] >= 0) & is_below)
    yield line["t0_us"] >= 0


def _array_conditions() -> Iterator[Column]:
    """Yield what must be true of the arrays."""
    line = F.col("line")
    yield from (F.size(line[name]) == F.size(line["start_us"]) for name in ("duration_us", *INDEXES))
    for name in TIMES:
        yield (F.array_min(line[name]) >= 0) & (F.array_max(line[name]) < float("inf"))
    # Null, and so not true, where an element is null.
    yield from (~F.array_contains(line[name], -1.0) for name in TIMES)
    yield from (~F.array_contains(line[name], _RARE) for name in INDEXES)


def _end_length(value: Column) -> Column:
    """Bytes of what ends a line: the brace, and the carriage return that Windows leaves behind it."""
    return F.when(value.endswith("\r"), 2).otherwise(1)


def _is_surely_text(name: str) -> Column:
    """Whether the field is null or was text in the line: Spark makes text of anything."""
    value, field = F.col("value"), F.col("line")[name]
    spelled = (F.concat(F.lit(f'"{name}":{space}"'), field, F.lit('"')) for space in ("", " "))
    return field.isNull() | ~field.rlike(_NOT_SURELY_TEXT) | reduce(or_, map(value.contains, spelled))


def _is_absent_or_good(name: str) -> Column:
    """Whether the field is there or rightly null: Spark makes null of what does not fit the type."""
    value = F.col("value")
    is_null = reduce(or_, (value.contains(f'"{name}":{space}null') for space in ("", " ")))
    return F.col("line")[name].isNotNull() | ~F.array_contains("keys", name) | is_null
