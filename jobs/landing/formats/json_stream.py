"""Reader of JSON that is too large for memory: yields the items of an array in the document.

The scanner of the standard library's json reads one item at a time from a window of the text.
"""

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Final, Never

from jobs.landing.formats.rows import LONGEST_TEXT, FileError, Reject
from schemas.vocabulary import Reason

_PIECE: Final = 1 << 20
_UNFINISHED: Final = len("e+")
"""Most characters at the end of a text that may begin an exponent, such as "e+" of 1e+5."""
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_SCANNER: Final = json.JSONDecoder()


def items(file: BinaryIO, most: int, rejects: list[Reject]) -> Iterator[Any]:
    """Yield the items of the document's array, or of its `traceEvents`, as in the Trace Event Format.

    most : most characters of one item, or of another value beside the array
    rejects : receives a reject with the text after the document, which is not read
    Raises FileError for a document that is not JSON to its end, or has a longer value.
    """
    window = _Window(file, most)
    if window.peek() == "[":
        yield from window.array()
    elif window.peek() == "{":
        for name in window.names():
            if name == "traceEvents" and window.peek() == "[":
                yield from window.array()
            else:
                window.value()
    else:
        window.refuse("neither an array nor an object")
    if rest := window.rest():
        rejects.append(Reject(Reason.NOT_JSON, "after the end of the file's JSON; not read", text=rest))


class _Window:
    """The part of a document's text that is in memory."""

    def __init__(self, file: BinaryIO, most: int) -> None:
        self._file, self._most = file, most
        self._decode = codecs.getincrementaldecoder("utf-8-sig")("replace").decode
        self._text, self._at = "", 0

    def peek(self) -> str:
        """Return the next non-blank character."""
        if not self._has_more():
            self.refuse("it ends too early")
        return self._text[self._at]

    def rest(self) -> str:
        """Return the beginning of the remaining text; empty if only blanks follow."""
        return self._text[self._at :][:LONGEST_TEXT] if self._has_more() else ""

    def _has_more(self) -> bool:
        """Skip blanks; return whether any text follows."""
        while True:
            self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]  # matches nothing too
            if self._at < len(self._text):
                return True
            if not self._more():
                return False

    def value(self) -> Any:  # noqa: ANN401  # any JSON value
        """Decode and return the next value."""
        self.peek()
        while True:
            try:
                found, end = _SCANNER.raw_decode(self._text, self._at)
            except RecursionError:
                self.refuse("nested too deeply")
            except ValueError as error:
                if not self._more():
                    self.refuse(str(error))
                continue
            length = end - self._at  # `_more` shifts both positions
            if end + _UNFINISHED >= len(self._text) and self._more():  # the value may be a truncated number
                continue
            self._at += length
            return found

    def array(self) -> Iterator[Any]:
        """Yield the items of the array that begins here."""
        self._at += 1
        if self.peek() == "]":
            self._at += 1
            return
        while True:
            yield self.value()
            if self._after("]"):
                return

    def names(self) -> Iterator[str]:
        """Yield the member names of the object that begins here; the caller reads each value."""
        self._at += 1
        if self.peek() == "}":
            self._at += 1
            return
        while True:
            name = self.value()
            if self.peek() != ":":
                self.refuse("a name without a value")
            self._at += 1
            yield name
            if self._after("}"):
                return

    def refuse(self, why: str) -> Never:
        """Raise FileError for text that is not JSON up to its end."""
        raise FileError(Reason.UNREADABLE_FILE, f"not JSON to its end: {why}")

    def _after(self, end: str) -> bool:
        """Return whether the array or object ends here; if not, skip the comma before the next item."""
        found = self.peek()
        if found not in {",", end}:
            self.refuse(f"{found!r} between two values")
        self._at += 1
        return found == end

    def _more(self) -> bool:
        if len(self._text) - self._at > self._most:
            raise FileError(Reason.FILE_TOO_LARGE, f"a value of more than {self._most} characters")
        piece = self._file.read(_PIECE)
        self._text = self._text[self._at :] + self._decode(piece, final=not piece)
        self._at = 0
        return bool(piece)
