"""Strict parser of JSON as the contract demands: one value with nothing after it, no duplicate key, UTF-8.

It is built on Python's json, which by itself accepts duplicate keys, NaN and other encodings.
"""

import json
import math
from collections import Counter
from typing import Any, Final, TypeGuard

_MOST_DIGITS: Final = 400
"""Integers with more digits are read as infinite floats; beyond 4,300 digits Python would refuse them."""


_NOT_UTF_8: Final = {
    b"\xef\xbb\xbf": "it begins with a byte order mark: save it as UTF-8 without one",
    b"\xff\xfe": "it is UTF-16: save it as UTF-8",
    b"\xfe\xff": "it is UTF-16: save it as UTF-8",
    b"\x1f\x8b": "it is packed by gzip: the name of such a log ends in .gz",
}
"""First bytes of files that are not JSON in UTF-8 -> what is wrong, and what to do."""


class StrictJsonError(ValueError):
    """Raised if bytes are not exactly one JSON value; the message is a sentence."""


class TooDeepError(StrictJsonError):
    """Raised if a JSON text nests arrays and objects deeper than the limit."""

    def __init__(self, most: int) -> None:
        super().__init__(f"nested deeper than {most} levels")


class NotANumber(float):
    """Stands for NaN, Infinity and -Infinity, which many writers emit although JSON lacks them."""


def parse(content: bytes, nesting: int) -> Any:  # noqa: ANN401  # any JSON value
    """Parse the one JSON value in `content`.

    nesting : most levels of nested arrays and objects
    NaN, Infinity and -Infinity become NotANumber, so that the caller can distinguish them from numbers;
    integers of more than 400 digits become infinite floats. Raises StrictJsonError for anything else that is
    not valid JSON, and TooDeepError for deeper nesting.
    """
    for begin, what in _NOT_UTF_8.items():
        if content.startswith(begin):
            raise StrictJsonError(f"not JSON: {what}")
    try:
        found = _DECODER.decode(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise StrictJsonError(f"not JSON: byte {error.start + 1} is not UTF-8") from None
    except json.JSONDecodeError as error:
        is_cut = error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated string")
        what = "something follows the first value" if error.msg == "Extra data" else error.msg
        if is_cut:
            what = f"it breaks off: {what}" if error.doc.strip() else "it is empty"
        is_line = "\n" not in error.doc.rstrip()
        place = f"character {error.pos + 1}" if is_line else f"line {error.lineno}, column {error.colno}"
        raise StrictJsonError(f"not JSON: {what} ({place})") from None
    except RecursionError:
        raise TooDeepError(nesting) from None
    depth, level = 0, [found]
    while level := [each for each in level if isinstance(each, dict | list)]:
        depth += 1
        level = [each for one in level for each in (one.values() if isinstance(one, dict) else one)]
    if depth > nesting:
        raise TooDeepError(nesting)
    return found


def shown(value: object, most: int = 60) -> str:
    """Return a value as ASCII JSON for messages, truncated if long."""
    text = json.dumps(value, default=str)
    return text if len(text) <= most else text[:most] + "..."


def is_integer(value: object, least: float = -math.inf, most: float = math.inf) -> TypeGuard[int]:
    """Return whether a value is an integer in [least, most]; booleans are not integers here."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def is_text(value: object) -> TypeGuard[str]:
    """Return whether a value is text that can be stored: text without lone surrogates."""
    if not isinstance(value, str):
        return False
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def is_name(value: object, most: int) -> TypeGuard[str]:
    """Return whether a value is text that can be stored, of at most `most` bytes in UTF-8."""
    return isinstance(value, str) and len(value) <= most and is_text(value) and len(value.encode()) <= most


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        raise StrictJsonError(f"not JSON: key {shown(twice)} occurs twice")
    return found


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_int=lambda digits: int(digits) if len(digits) <= _MOST_DIGITS else float(digits),
    parse_constant=NotANumber,
)
