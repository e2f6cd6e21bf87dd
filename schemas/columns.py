"""Parser of columns and rules that are declared as text, kinds of columns, and columns that tables share."""

import re
from collections.abc import Iterator, Mapping
from inspect import cleandoc
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from schemas import vocabulary
from schemas.table import Column, Expectation, SchemaError

SAME_FORMULA: Final = 1e-12
"""Relative tolerance for one formula computed twice from the same float64 numbers: only rounding differs."""
SAME_SUM: Final = 1e-9
"""Relative tolerance for the same numbers summed over steps in different orders."""

Own = Mapping[str, Column | pa.DataType | tuple[str, ...]]
_NONE: Final[Own] = MappingProxyType({})
_TYPES: Final = {
    "text": pa.string(),
    "flag": pa.bool_(),
    "integer": pa.int64(),
    "number32": pa.int32(),
    "code": pa.int8(),
    "real": pa.float64(),
    "real32": pa.float32(),
    "day": pa.date32(),
    "instant": pa.timestamp("us", tz="UTC"),
}
_KINDS: Final[dict[str, dict[str, Any]]] = {
    **{name: {"type": kind} for name, kind in _TYPES.items()},
    "count": {"type": pa.int64(), "unit": "count", "minimum": 0},
    "size": {"type": pa.int32(), "unit": "count"},
    "seconds": {"type": pa.float64(), "unit": "s"},
    "ratio": {"type": pa.float64(), "unit": "ratio"},
    "fraction": {"type": pa.float64(), "unit": "fraction"},
    "share": {"type": pa.float64(), "unit": "fraction", "maximum": 1.0 + SAME_SUM},
    "gpu_hours": {"type": pa.float64(), "unit": "GPU h", "nullable": True},
}
"""Arguments of Column, by the name that a declaration uses for the kind of column."""
_COLUMN: Final = re.compile(
    r"(?P<name>\w+) \((?P<kind>\w+(?:\[\]| -> \w+)?)(?P<nullable>\??)(?: of (?P<allowed>\w+))?"
    r"(?: \[(?P<unit>[^]]+)\])?(?: >= (?P<minimum>[-.\w]+))?(?: <= (?P<maximum>[-.\w]+))?"
    r"\): (?P<meaning>[^{}]+)"
)
_RULE: Final = re.compile(r"-- (?P<meaning>(?:.|\n-- )+)\n(?P<name>\w+)(?P<warns> \(warns\))?: (?P<sql>.+)")


def struct(fields: str, **nested: pa.DataType) -> pa.StructType:
    """Return the type of a struct with these fields, as in `host text, rank number32`.

    nested : types of further fields
    """
    types = {name: _TYPES[kind] for name, kind in (each.split() for each in fields.split(", "))}
    return pa.struct([*types.items(), *nested.items()])


def declared(text: str, own: Own = _NONE) -> tuple[Column, ...]:
    """Return the columns that a text declares, such as `lost_s (seconds? [s] >= 0 <= 1): meaning`.

    After a question mark, the column may be null. Values may equal a bound. `cause (text of CAUSES)` allows
    the values of the tuple CAUSES, in `own` or in schemas.vocabulary. Indented lines continue a meaning. A
    line of names with commas between them adds columns that several tables share.

    own : types, tuples of values, and shared columns, by the names that the text uses
    Raises SchemaError for a line that is neither a declaration nor a list of shared columns.
    """
    return tuple(_declared(text, own, _SHARED))


def _declared(text: str, own: Own, shared: Mapping[str, Column]) -> Iterator[Column]:
    for entry in _unfolded(text):
        found = _COLUMN.fullmatch(entry)
        if found is None:
            for name in entry.split(", "):
                column = own.get(name, shared.get(name))
                if not isinstance(column, Column):
                    raise SchemaError(f"not a shared column, and not a declaration of one: {entry}")
                yield column
            continue
        stated: dict[str, Any] = {key: value for key, value in found.groupdict().items() if value}
        try:
            kind, values = _kind(stated.pop("kind"), own), stated.pop("allowed", None)
            stated |= {"allowed": tuple(map(str, {**vars(vocabulary), **own}[values]))} if values else {}
        except KeyError as error:
            raise SchemaError(
                f"{error} is not a kind of column, nor a set of allowed values: {entry}"
            ) from None
        stated |= {key: _number(stated[key]) for key in ("minimum", "maximum") if key in stated}
        stated |= {"nullable": True} if "nullable" in stated else {}
        yield Column(**kind | stated)


def _kind(text: str, own: Own) -> dict[str, Any]:
    """Return the arguments of Column for a kind such as `text`, `text[]` (list) or `text -> real` (map)."""
    if text in own:
        return {"type": own[text]}
    if text.endswith("[]"):
        return {"type": pa.list_(_TYPES[text.removesuffix("[]")])}
    key, is_map, value = text.partition(" -> ")
    return {"type": pa.map_(_TYPES[key], _TYPES[value])} if is_map else _KINDS[text]


def rules(text: str) -> tuple[Expectation, ...]:
    """Return the rules that a text declares: a line `-- meaning`, then a line `name: condition` in SQL.

    If `name (warns): condition` is broken, the phase only warns. Further lines of `--` continue a meaning,
    and indented lines continue a condition.
    """
    entries = "\n".join(_unfolded(text))
    found = [*_RULE.finditer(entries)]
    if "\n".join(each[0] for each in found) != entries:
        raise SchemaError(f"no rules: {entries}")
    return tuple(
        Expectation(
            each["name"],
            each["sql"],
            each["meaning"].replace("\n-- ", " "),
            "warns" if each["warns"] else "refuses",
        )
        for each in found
    )


def _unfolded(text: str) -> Iterator[str]:
    """Yield the entries of a text, each joined with the indented lines that follow it."""
    for entry in re.split(r"\n(?! )", cleandoc(text)):
        yield " ".join(map(str.strip, entry.splitlines()))


def _number(text: str) -> float:
    return int(text) if text.lstrip("-").isdecimal() else float(text)


_SHARED: Final[dict[str, Column]] = {
    column.name: column
    for column in _declared(
        """
        log_date (day): day on which the producers wrote the logs; tables are partitioned by it
        job_id (text): training job, as the landing's folder names it; text even if the name is a number
        run_id (text): run of the job, as the landing's folder names it; text even if the name is a number
        source_file (text): path relative to the landing's root
        step (integer): number of the training step; usually only some steps are recorded
        rank (number32 >= 0): global rank within the run
        dp_rank (number32 >= 0): data-parallel rank, the number of the replica
        pp_rank (number32 >= 0): pipeline stage
        host (text?): machine on which the rank ran; null if not logged
        ideal_step_s (seconds): step time replayed with every duration ideal (T_ideal)
        waste_fraction (fraction): 1 - 1/slowdown: share of the replayed time beyond the ideal time (Eq. 3)
        gpu_hours (gpu_hours): GPU-hours allocated on this log date, from the manifest; null if it states none
        lost_gpu_hours (gpu_hours >= 0): GPU-hours that analysed units lose: see job_causes; null if no unit
            states GPU-hours
        lost_s (seconds? >= 0): time that analysed units, including those without GPU-hours, lose of their
            recorded step time; null: no unit is analysed
        analysed_s (seconds? >= 0): recorded step time of analysed units, summed over all steps; null: no unit
            is analysed
        """,
        _NONE,
        {},
    )
}
"""Columns that several tables have, by name."""


def interval(*names: str, unit: str = "fraction") -> tuple[Column, ...]:
    """Return columns NAME_low and NAME_high for each name: the ends of a 90 % interval around the column."""
    ends = [(name, *end) for name in names for end in (("low", "lower end"), ("high", "upper end"))]
    said = "{} of a 90 % interval around {}; null if no interval is known"
    return tuple(
        Column(f"{name}_{end}", said.format(bound, name), pa.float64(), unit=unit, nullable=True)
        for name, end, bound in ends
    )


def in_order(*names: str) -> Expectation:
    """Return the rule for columns of `interval`: both ends are null, or the value lies between them."""
    each = (
        f"({name}_low IS NULL) = ({name}_high IS NULL)"
        f" AND ({name}_low IS NULL OR coalesce({name} BETWEEN {name}_low AND {name}_high, false))"
        for name in names
    )
    return Expectation(
        "intervals_hold_their_value", " AND ".join(each), "an interval has both ends, around its value"
    )


def agree(left: str, right: str, tolerance: float) -> str:
    """Return the SQL condition |left - right| <= tolerance * max(1, |right|).

    Near 0 the tolerance is absolute, because 1 - 1/slowdown has lost digits there.
    """
    return f"abs(({left}) - ({right})) <= {tolerance!r} * greatest(1, abs({right}))"


(WASTE_OF_SLOWDOWN,) = rules(f"""
    -- waste_fraction = 1 - 1/slowdown
    waste_fraction_of_slowdown: {agree("waste_fraction", "1 - try_divide(1, slowdown)", SAME_FORMULA)}
    """)
"""Rule that waste follows from slowdown; a slowdown of 0 breaks it, because try_divide gives null."""
