"""Parse a page, for tests: its elements, text and embedded data."""

import json
from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any

import pandas as pd


def unpacked(columns: Mapping[str, Any]) -> pd.DataFrame:
    """Return a table that a page stores by columns; text is stored as positions in a list of names."""
    return pd.DataFrame(
        {
            name: [None if place is None else values["names"][place] for place in values["places"]]
            if isinstance(values, dict)
            else values
            for name, values in columns.items()
        }
    )


VOID = {"meta", "input", "br", "wbr", "link", "circle", "line", "polyline"}


class Page(HTMLParser):
    """A parsed page; `open` lists elements whose end tag is missing."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self._inside = ""
        self._data = ""
        self.feed(content.decode())

    @property
    def data(self) -> dict[str, Any]:
        """The JSON data embedded in the page for its script."""
        found: dict[str, Any] = json.loads(self._data)
        return found

    @property
    def text(self) -> str:
        """All text of the page, with each run of white space reduced to one space."""
        return " ".join("".join(self.words).split())

    def all(self, tag: str, attribute: str) -> list[str]:
        """Return the value of an attribute in each element that has this tag and this attribute."""
        return [values[attribute] or "" for name, values in self.tags if name == tag and attribute in values]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.words += [] if tag == "span" else [" "]
        self.open += [] if tag in VOID else [tag]
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""
        self.words += [] if tag == "span" else [" "]
        if self.open[-1:] == [tag]:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self._data += data
        else:
            self.words.append(data)
