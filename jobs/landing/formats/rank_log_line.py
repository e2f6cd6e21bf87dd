"""Strict reader of one rank log line: returns a row of rank_steps, or the first reason to reject the line.

This reader checks one value after the other, and so can name the wrong one. rank_log, which reads many plain
lines at once, calls it for all other lines.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Final, TypeVar

from jobs.landing.formats.rows import (
    COORDINATES,
    LISTS,
    LONGEST_US,
    MOST_TEXT,
    SCALARS,
    Bounds,
    Reject,
    text_of,
)
from jobs.landing.formats.strict_json import (
    NotANumber,
    StrictJsonError,
    TooDeepError,
    is_integer,
    is_name,
    parse,
    shown,
)
from schemas.vocabulary import OP_CODES, RANK_LOG_FORMAT, Reason

Found = TypeVar("Found")

NAME: Final = f"text of at most {MOST_TEXT} bytes"
TIMES: Final = ("start_us", "duration_us")
OPTIONAL: Final = ("tp_rank", "cp_rank", "host", "gpu", "gpu_type")
REQUIRED: Final = ("format", "job_id", "run_id", "rank", "dp_rank", "pp_rank", "step", "t0_us", *LISTS)

_KNOWN: Final = {*REQUIRED, *OPTIONAL}
_LONGEST_OP: Final = 64
"""Characters of an unknown name that are compared with known names: the name may be megabytes long."""
_NAMES: Final = "jobs/emitter/README.md lists the names"
_INT32: Final = range(-(2**31), 2**31)
_INT64: Final = range(-(2**63), 2**63)
_IDS: Final = ("job_id", "run_id")
_EXCHANGED: Final = ("dp_rank", "pp_rank")
"""Coordinates that producers often swap by mistake."""
_INTEGERS: Final = {
    **dict.fromkeys(COORDINATES, ("an integer", None)),
    **dict.fromkeys(("step", "t0_us"), ("an integer of 64 bits", _INT64)),
    "gpu": ("an integer of 32 bits", _INT32),
}
"""Integer field -> description of valid values, and their range; coordinates have limits of their own."""
_ELEMENTS: Final = {
    "op": ("text", (str,)),
    **dict.fromkeys(TIMES, ("a number", (int, float, NotANumber))),
    **dict.fromkeys(("microbatch", "model_chunk"), ("an integer of 32 bits", (int,))),
}
"""Array field -> description of valid elements, and their types."""


class LineError(Exception):
    """Raised for an invalid line, with a reject reason and a sentence of explanation."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


def judged(
    lines: Iterable[tuple[int, bytes]], judge: Callable[[bytes], Found], rejects: list[Reject]
) -> Iterator[tuple[int, Found]]:
    """Call `judge` with each line that is not blank; yield the line's number and the result.

    rejects : receives a reject for each line for which `judge` raises LineError
    """
    for number, line in lines:
        if line.strip():
            try:
                found = judge(line)
            except LineError as error:
                rejects.append(Reject(error.reason, error.detail, number, text_of(line)))
            else:
                yield number, found


def read_line(line: bytes, unit: Mapping[str, Any], bounds: Bounds) -> dict[str, Any]:
    """Return the columns of rank_steps in a line, and gpu_type if the line states it.

    unit : job_id and run_id of the folders; rows.LIMITS and gpu_types of a valid manifest, else null
    Unknown keys are ignored. Raises LineError for the first reason that applies.
    """
    record = read_record(line, bounds)
    has_tensor_parallelism = (unit["tp_size"] or 1) > 1
    check_format(record, RANK_LOG_FORMAT)
    check_required(record, (*REQUIRED, "tp_rank") if has_tensor_parallelism else REQUIRED)
    _check_types(record)
    for name in record["op"]:
        if name not in OP_CODES:
            raise LineError(Reason.UNKNOWN_OP, _unknown_op(name))
    lengths = {name: len(record[name]) for name in LISTS}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise LineError(Reason.ARRAY_LENGTH, f"arrays of unequal length: {listed}")
    _check_times(record)
    _check_ranges(record, unit)
    check_ids(record, unit)
    stated = _gpu_type(record, unit)
    times = {name: [float(value) for value in record[name]] for name in TIMES}
    codes = [OP_CODES[name] for name in record["op"]]
    return {name: record.get(name) for name in (*SCALARS, *LISTS)} | times | {"op": codes} | stated


def read_record(line: bytes, bounds: Bounds, known: Collection[str] = _KNOWN) -> dict[str, Any]:
    """Return the single JSON object of a line.

    known : keys whose values the caller checks; other values must not contain NaN or Infinity
    Raises LineError for a line that is not such an object, too long or nested too deeply.
    """
    if len(line) > bounds.line_bytes:
        raise LineError(Reason.LINE_TOO_LONG, f"the line is longer than {bounds.line_bytes} bytes")
    try:
        record = parse(line, bounds.nesting)
    except TooDeepError as error:
        raise LineError(Reason.NESTED_TOO_DEEPLY, str(error)) from None
    except StrictJsonError as error:
        raise LineError(Reason.NOT_JSON, str(error)) from None
    if not isinstance(record, dict):
        raise LineError(Reason.NOT_JSON, f"not a JSON object but {shown(record)}")
    for name, value in record.items():
        if name not in known and _holds_nan(value):
            raise LineError(Reason.NOT_JSON, f"not JSON: {shown(name)} holds NaN or Infinity")
    return record


def _holds_nan(value: object) -> bool:
    if isinstance(value, dict | list):
        return any(map(_holds_nan, value.values() if isinstance(value, dict) else value))
    return isinstance(value, NotANumber)


def check_format(record: Mapping[str, Any], wanted: str) -> None:
    """Raise LineError if a record states another format than `wanted`; a record may state no format."""
    if record.get("format") not in (None, wanted):
        raise bad_type("format", record["format"], shown(wanted))


def check_required(record: Mapping[str, Any], names: Iterable[str]) -> None:
    """Raise LineError for the first of these keys that is missing or null."""
    for name in names:
        if record.get(name) is None:
            raise LineError(Reason.MISSING_FIELD, f"{name} is {'null' if name in record else 'missing'}")


def _check_types(record: Mapping[str, Any]) -> None:
    for name in (*_IDS, "host", "gpu_type"):
        if record.get(name) is not None and not is_name(record[name], MOST_TEXT):
            raise bad_type(name, record[name], NAME)
    for name, (wanted, fitting) in _INTEGERS.items():
        value = record.get(name)
        if value is not None and not (is_integer(value) and (fitting is None or value in fitting)):
            raise bad_type(name, value, wanted)
    for name, (wanted, kinds) in _ELEMENTS.items():
        values = record[name]
        if not isinstance(values, list):
            raise bad_type(name, values, "an array")
        is_index = kinds == (int,)
        for place, value in enumerate(values, start=1):
            if type(value) not in kinds or (is_index and value not in _INT32):
                raise bad_type(f"element {place} of {name}", value, wanted)


@lru_cache(maxsize=256)
def _unknown_op(name: str) -> str:
    """Describe an unknown op name, with the closest known name; cached, because the same names recur."""
    compute = f"{name[:_LONGEST_OP]}-compute"  # "forward" means a compute, not a transfer
    close = [compute] if compute in OP_CODES else get_close_matches(name[:_LONGEST_OP], OP_CODES, n=1)
    return f"unknown op {shown(name)}: " + (f"did you mean {close[0]}?" if close else _NAMES)


def _check_times(record: Mapping[str, Any]) -> None:
    if record["t0_us"] < 0:
        raise LineError(Reason.NEGATIVE_TIME, f"t0_us is {record['t0_us']}")
    checks = (
        (Reason.NEGATIVE_TIME, lambda value: value < 0),
        (Reason.NOT_FINITE, lambda value: not value <= LONGEST_US),  # NaN, or so large that sums overflow
    )
    for reason, is_bad in checks:
        for name in TIMES:
            for place, value in enumerate(record[name], start=1):
                if is_bad(value):
                    beyond = f", more than {LONGEST_US:.3g} us" if value > LONGEST_US else ""
                    raise LineError(reason, f"element {place} of {name} is {shown(value)}{beyond}")


def _check_ranges(record: Mapping[str, Any], unit: Mapping[str, Any]) -> None:
    for name, size in COORDINATES.items():
        value, bound = record.get(name), unit[size]
        if value is None:
            continue
        if value < 0 or (bound is not None and value >= bound):
            least = f"below {size} {bound}" if bound is not None and value >= bound else "at least 0"
            swapped = ((record["dp_rank"], unit["pp_size"]), (record["pp_rank"], unit["dp_size"]))
            would_fit = all(limit is not None and 0 <= rank < limit for rank, limit in swapped)
            hint = ": are dp_rank and pp_rank exchanged?" if name in _EXCHANGED and would_fit else ""
            raise LineError(Reason.RANK_OUT_OF_RANGE, f"{name} is {shown(value)}, not {least}{hint}")
        if value not in _INT32:
            raise LineError(Reason.RANK_OUT_OF_RANGE, f"{name} is {shown(value)}, more than 32 bits hold")


def _gpu_type(record: Mapping[str, Any], unit: Mapping[str, Any]) -> dict[str, str]:
    """Return the line's gpu_type, or {}. Raises LineError if the manifest states another for the host."""
    name, host = record.get("gpu_type"), record.get("host")
    if name is None:
        return {}
    if not name:
        raise bad_type("gpu_type", name, "a name")
    stated = (unit.get("gpu_types") or {}).get(host, name)
    if name != stated:
        detail = f"gpu_type is {shown(name)}, but job.json says {shown(stated)} for host {shown(host)}"
        raise LineError(Reason.IDENTITY_MISMATCH, detail)
    return {"gpu_type": name}


def check_ids(record: Mapping[str, Any], unit: Mapping[str, Any]) -> None:
    """Raise LineError if a line's job or run differs from the job or run of its folder."""
    for name in _IDS:
        if record[name] != unit[name]:
            detail = f"{name} is {shown(record[name])}, but the folder or job.json says {shown(unit[name])}"
            raise LineError(Reason.IDENTITY_MISMATCH, detail)


def check_choice(record: Mapping[str, Any], name: str, allowed: Sequence[str]) -> None:
    """Raise LineError for a value that is present but not among the choices; name the closest choice."""
    value = record.get(name)
    if value is not None and value not in allowed:
        close = get_close_matches(value[:_LONGEST_OP], allowed, n=1) if isinstance(value, str) else ()
        hint = f": did you mean {close[0]}?" if close else ""
        raise bad_type(name, value, f"one of {', '.join(allowed)}{hint}")


def bad_type(name: str, value: object, wanted: str) -> LineError:
    """Return the error for a value of the wrong type."""
    return LineError(Reason.BAD_TYPE, f"{name} is {shown(value)}, not {wanted}")
