"""Reader of a Kineto trace in batches of events, so that gigabytes of JSON need only megabytes of memory.

A trace is one object with one long array, `traceEvents`, and small fields before and after it. The text is
cut at a `}, {` that seems to lie between two events. The decoder tests each guess: text before a wrong cut
leaves a bracket or a string open, so that it is not valid JSON.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Final, TypeVar

import msgspec

from jobs.landing.formats.rows import FileError
from schemas.vocabulary import Reason

_BATCH_BYTES: Final = 4 << 20
_LARGEST_EVENT: Final = 16 << 20
"""Most bytes of an event, and of the fields before or after the events."""
_MOST_GUESSES: Final = 4
"""Most cuts that are tried. If none is right, the last events and the fields after them are read together."""

_EVENTS: Final = re.compile(rb'"traceEvents"\s*:\s*\[')
_AFTER: Final = re.compile(rb"\s*,\s*\{")
_NO_NUMBER: Final = re.compile(rb":\s*-?(?:inf|nan|Infinity|NaN)\b", re.IGNORECASE)


Decoded = TypeVar("Decoded")


class Args(msgspec.Struct, gc=False):
    """Fields that this project uses of an event's args."""

    correlation: int | None = None
    collective: Any = msgspec.field(name="Collective name", default=None)
    group: Any = msgspec.field(name="Process Group Description", default=None)
    group_name: Any = msgspec.field(name="Process Group Name", default=None)
    group_size: Any = msgspec.field(name="Group size", default=None)
    sequence: Any = msgspec.field(name="Seq", default=None)
    comms_id: Any = msgspec.field(name="Comms Id", default=None)


class Event(msgspec.Struct, gc=False):
    """Fields that this project uses of an event, with times as in the file. [us]"""

    name: str = ""
    cat: str = ""
    ph: str = ""
    pid: int | str = ""
    tid: int | str = ""
    ts: float = 0.0
    dur: float = 0.0
    args: Args | None = None


class Group(msgspec.Struct):
    """A process group of the rank; `ranks` is a list or text, truncated after 30."""

    pg_desc: str | None = None
    pg_size: int | None = None
    ranks: Any = None
    pg_name: Any = None


class DistributedInfo(msgspec.Struct):
    """Rank, world size and process groups that a trace states."""

    rank: int | None = None
    world_size: int | None = None
    pg_config: list[Group] | None = None


class Fields(msgspec.Struct):
    """Small fields of a trace, and the events of its last batch."""

    trace_events: list[Event] = msgspec.field(name="traceEvents", default_factory=list)
    distributed: DistributedInfo | None = msgspec.field(name="distributedInfo", default=None)
    base_ns: int = msgspec.field(name="baseTimeNanoseconds", default=0)


_DECODE_EVENTS: Final = msgspec.json.Decoder(list[Event]).decode
_DECODE_FIELDS: Final = msgspec.json.Decoder(Fields).decode


class TraceStream:
    """Events of one file in batches; `fields` are complete once all batches are read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.fields = Fields()

    def batches(self) -> Iterator[list[Event]]:
        """Yield events in file order. Raises FileError for a file that is truncated or not JSON."""
        rest = b""
        while (found := _EVENTS.search(rest)) is None:
            block = self._file.read(_BATCH_BYTES)
            if not block or len(rest) > _LARGEST_EVENT:
                raise FileError(Reason.UNREADABLE_FILE, 'no "traceEvents"')
            rest += block
        self.fields = _fields(rest[: found.end()] + b"]}")
        rest = rest[found.end() :]
        while block := self._file.read(_BATCH_BYTES):
            rest += block
            events, used = _whole_events(rest)
            rest = rest[used:]
            if len(rest) > _LARGEST_EVENT:
                raise FileError(
                    Reason.UNREADABLE_FILE, f"not JSON: {len(rest)} bytes without the end of an event"
                )
            yield events
        last = _fields(b'{"traceEvents":[' + rest)
        events, last.trace_events = last.trace_events, []
        self.fields = Fields(
            distributed=last.distributed or self.fields.distributed,
            base_ns=last.base_ns or self.fields.base_ns,
        )
        yield events


def _whole_events(text: bytes) -> tuple[list[Event], int]:
    """Decode all complete events; return them and the number of bytes used, including the last comma."""
    end = len(text)
    for _ in range(_MOST_GUESSES):
        end = text.rfind(b"}", 0, end)
        if end < 0:
            break
        after = _AFTER.match(text, end + 1)
        if after is None:
            continue
        try:
            return _decoded(b"[" + text[: end + 1] + b"]", _DECODE_EVENTS), after.end() - 1
        except msgspec.DecodeError:
            continue
    return [], 0


def _fields(text: bytes) -> Fields:
    try:
        return _decoded(text, _DECODE_FIELDS)
    except msgspec.DecodeError as error:
        raise FileError(Reason.UNREADABLE_FILE, f"the trace breaks off, or is not JSON: {error}") from None


def _decoded(text: bytes, decode: Callable[[bytes], Decoded]) -> Decoded:
    """Decode JSON; nan and infinity, which older versions of torch wrote for idle bandwidths, become null."""
    try:
        return decode(text)
    except msgspec.ValidationError as error:
        raise FileError(Reason.UNREADABLE_FILE, f"a value of another type than usual: {error}") from None
    except msgspec.DecodeError:
        mended = _NO_NUMBER.sub(b":null", text)
        if mended == text:
            raise
        return _decoded(mended, decode)
