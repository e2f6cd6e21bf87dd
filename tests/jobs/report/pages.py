"""Parse the parts of a page that tests read: embedded data, links and text."""

import json
from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any

import pandas as pd


def unpacked(columns: Mapping[str, Any]) -> pd.DataFrame:
    """Decode a table that a page stores by columns, in which text may be an index into a list of names."""
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
    """A parsed page; `open` lists the elements that are not closed correctly."""

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
        """The JSON data that the page's script reads."""
        found: dict[str, Any] = json.loads(self._data)
        return found

    @property
    def text(self) -> str:
        """All text of the page, with each run of spaces reduced to one."""
        return " ".join("".join(self.words).split())

    def all(self, tag: str, attribute: str) -> list[str]:
        """All values of an attribute of one kind of element."""
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
