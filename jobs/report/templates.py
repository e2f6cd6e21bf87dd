"""Rendering of pages from templates; text from logs is escaped, and data is embedded as JSON, not as code.

Each page states a content security policy, by which a browser loads only files that belong to the page.
"""

import math
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Final

import pyarrow as pa
from jinja2 import Environment, FunctionLoader, StrictUndefined
from jinja2.filters import do_mark_safe

from jobs.report import wording
from schemas import vocabulary
from schemas.dictionary import entries
from schemas.queries import QUERIES
from schemas.symbols import SYMBOLS, symbols_of
from schemas.tables import TABLES
from schemas.views import VIEWS
from schemas.vocabulary import Status

_ALWAYS: Final = "default-src 'none'; connect-src 'none'; base-uri 'none'; form-action 'none'; img-src data:"

OF_FILES_BESIDE: Final = (
    # In some browsers, 'self' of a page that is opened from disk does not include the files beside the page.
    f"{_ALWAYS}; script-src 'self' file:; style-src 'self' file:"
)
"""Policy of a page whose scripts and style are files beside the page."""
SERVED: Final = f"{_ALWAYS}; script-src 'self'; style-src 'self'; frame-ancestors 'none'"
"""Policy that the server sends with each reply, in addition to the policy that a page states itself."""
_BESIDE: Final = re.compile(
    r'<link rel="stylesheet" href="[^"]*/(?P<style>[\w.-]+)">'
    r'|<script defer src="[^"]*/(?P<script>[\w.-]+)"></script>'
)
"""Tags by which a page refers to its style and scripts."""
DICTIONARY_SCRIPT: Final = "dictionary.js"
_SCRIPTS: Final = ("words.js", "charts.js", "tables.js", "fleet.js", "job.js", DICTIONARY_SCRIPT)

_BREAKABLE: Final = re.compile(r"(?<![\w.-])(?![\w.-]{31})[\w.]+(?:-[\w.]+)*-\d[\w.]*\b", re.ASCII)
"""Names and dates of up to 30 characters, such as node-0070, that a browser would break at a hyphen."""

_PER_CENT: Final = re.compile(r"<(script|code|pre)\b.*?</\1>|(?<=\d) %(?!\s*[\d(]|\w)", re.DOTALL)
"""A space before a per cent sign, to be replaced by a no-break space; or code, which stays as it is."""

LIBRARY_NAME: Final = "charts-library.js"
SCRIPT_NAME: Final = "report.js"
STYLE_NAME: Final = "report.css"
DICTIONARY_NAME: Final = "dictionary.html"
"""Files that all pages of a publication share."""


def page(name: str, values: Mapping[str, object]) -> bytes:
    """Render a template; `root` is the path from the page to the publication's folder."""
    rendered = _environment().get_template(name).render(values)
    return _PER_CENT.sub(lambda each: each[0] if each[1] else "\N{NO-BREAK SPACE}%", rendered).encode()


def shared_files(*scripts: str) -> dict[str, bytes]:
    """Return the script and style that all pages share, by file name.

    scripts : files to join to the script; all of _SCRIPTS by default
    """
    script = "".join(_read(name) for name in scripts or _SCRIPTS)
    return {SCRIPT_NAME: script.encode(), STYLE_NAME: _read(STYLE_NAME).encode()}


def unbroken(text: str) -> str:
    """Escape a text for a page, so that a browser does not break lines within names and dates."""
    return do_mark_safe(_BREAKABLE.sub(r'<span class="name">\g<0></span>', escape(text)))


def rounded(values: Iterable[float | None], digits: int = 6) -> list[float | None]:
    """Round numbers to `digits` significant digits, to make a page smaller; nan becomes None."""
    return [None if value is None or math.isnan(value) else float(f"{value:.{digits}g}") for value in values]


def columns(table: pa.Table) -> dict[str, object]:
    """Return a table's columns for a page's JSON: rounded numbers; texts and dates as indices in `names`."""
    found: dict[str, object] = {}
    for name in table.column_names:
        values = table[name].combine_chunks()
        if pa.types.is_floating(values.type):
            found[name] = rounded(values.to_pylist())
        elif pa.types.is_string(values.type) or pa.types.is_date(values.type):
            encoded = values.cast(pa.string()).dictionary_encode()
            found[name] = {"names": encoded.dictionary.to_pylist(), "places": encoded.indices.to_pylist()}
        else:
            found[name] = values.to_pylist()
    return found


def _read(name: str) -> str:
    return files("jobs.report").joinpath("page", name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FunctionLoader(_read),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    for name in ("counted", "hours", "number", "percent", "ratio", "seconds"):
        made.filters[name] = getattr(wording, name)
    made.filters["unbroken"] = unbroken
    made.globals.update(
        library=LIBRARY_NAME,
        script=SCRIPT_NAME,
        style=STYLE_NAME,
        policy=OF_FILES_BESIDE,
        status_words={each: each.words for each in Status},
    )
    return made


def of_inline(template: str) -> str:
    """Return a content security policy that allows only a page's own inline scripts and styles, by hash."""
    found = [_ALWAYS]
    for tag in ("style", "script"):
        texts = re.findall(rf"<{tag}>(.*?)</{tag}>", template, re.DOTALL)
        hashes = [f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in texts]
        found += [f"{tag}-src {' '.join(hashes)}"] if hashes else []
    return "; ".join(found)


def single_file(page: bytes, shared: Mapping[str, bytes]) -> bytes:
    """Return a page with its shared files inlined.

    shared : contents of the files that pages share, by name
    """
    text, scripts = page.decode(), []

    def inline(found: re.Match[str]) -> str:
        if found["style"]:
            return f"<style>{shared[found['style']].decode()}</style>"
        scripts.append(shared[found["script"]].decode().replace("</script", "<\\/script"))
        return ""

    head = _BESIDE.sub(inline, text)
    body, end, rest = head.rpartition("</body>")
    whole = f"{body}{''.join(f'<script>{each}</script>' for each in scripts)}{end}{rest}"
    return whole.replace(_escaped(OF_FILES_BESIDE), _escaped(of_inline(whole))).encode()


def _escaped(policy: str) -> str:
    """Escape a policy as the template engine does, so that it can be found in a page."""
    return policy.replace("'", "&#39;")


GROUPS: Final = (
    ("What was ingested", vocabulary.INGESTED_TABLES),
    ("Results of each unit", vocabulary.RESULT_TABLES),
    ("The fleet, day by day", vocabulary.FLEET_TABLES),
    (
        "The pipeline itself",
        (vocabulary.UNIT_FINGERPRINTS, vocabulary.PIPELINE_RUNS, vocabulary.PUBLICATIONS),
    ),
    ("Runs in progress", vocabulary.LIVE_TABLES),
)
"""Sections of the data dictionary, with their tables."""


@cache
def dictionary() -> bytes:
    """Return the data dictionary as a page that uses the style and script of a publication."""
    values = {
        "root": ".",
        "title": "Data dictionary - straggler warehouse",
        "groups": [(title, [TABLES[name] for name in names]) for title, names in GROUPS],
        "columns": {name: [entry for entry in entries() if entry.table == name] for name in TABLES},
        "symbols": SYMBOLS,
        "symbols_of": symbols_of,
        "views": list(VIEWS.values()),
        "queries": list(QUERIES.values()),
    }
    return page(DICTIONARY_NAME, values)


def dictionary_alone() -> bytes:
    """Return the data dictionary as one self-contained HTML file."""
    return single_file(dictionary(), shared_files(DICTIONARY_SCRIPT))
