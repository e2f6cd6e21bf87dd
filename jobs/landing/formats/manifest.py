"""The manifest of a unit: job.json beside rank logs, meta-NAME.yaml beside a published trace.

Either becomes the columns of the table jobs, with what is wrong in manifest_status and manifest_detail.
What is missing stays null; a field that is wrong is named, and null unless it is a size that fits its column.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import yaml

from jobs.landing.formats.strict_json import (
    NotANumber,
    StrictJsonError,
    depth,
    is_text,
    parse,
    shown,
    too_deep,
)
from schemas.ingested_tables import JOBS
from schemas.vocabulary import STATUS_BAD_LAYOUT, STATUS_NO_MANIFEST, TRANSFERS

SIZES: Final = ("dp_size", "pp_size", "tp_size", "cp_size", "vpp_size", "world_size")
_PRODUCT: Final = ("dp_size", "pp_size", "tp_size", "cp_size")
_TEXTS: Final = ("cluster", "team", "model", "framework", "gpu_type", "source_format")
_TIMES: Final = ("started_at", "ended_at")
_PUBLISHED_LABELS: Final = ("trial_name", "run_id")
_LARGEST: Final = 2**31 - 1
_LONGEST_DETAIL: Final = 500
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Of libyaml where it is there: a hundred times as fast."""
_MOST_GPU_HOURS: Final = 1e9
"""Of forty million GPUs in a day. Sums over a fleet stay finite, whatever a manifest says."""

Row = dict[str, Any]


class ManifestError(ValueError):
    """A manifest that cannot be read at all: its unit has none. The message is a sentence."""


def no_manifest(detail: str) -> Row:
    """Return the columns of a unit without manifest: nulls, and why."""
    row: Row = dict.fromkeys(JOBS.value_schema.names)
    return row | {"manifest_status": STATUS_NO_MANIFEST, "manifest_detail": detail}


def manifest_fields(content: bytes, nesting: int) -> object:
    """Return what a job.json holds: an object, where it is good.

    nesting : how deep arrays and objects may lie in each other
    Raises ManifestError where it is not JSON, or nested deeper.
    """
    try:
        manifest = parse(content.removeprefix(b"\xef\xbb\xbf"))
    except StrictJsonError as error:
        raise ManifestError(f"not JSON: {error}") from None
    except RecursionError:
        raise ManifestError(too_deep(nesting)) from None
    if depth(manifest) > nesting:
        raise ManifestError(too_deep(nesting))
    return manifest


def manifest_row(manifest: object, job_id: str, run_id: str) -> Row:
    """Return the columns of jobs, without the unit's key, for the fields of a job.json.

    job_id, run_id : as the folder names them
    """
    if not isinstance(manifest, dict):
        return _bad_layout(f"not a JSON object but {shown(manifest)}")
    fields = _Fields(manifest)
    fields.identity("job_id", job_id)
    fields.identity("run_id", run_id)
    for name in SIZES:
        fields.size(name, name, is_required=True)
    fields.product()
    fields.size("ep_size", "ep_size", is_required=False)
    fields.optional()
    return fields.row()


def parse_published_meta(content: bytes, nesting: int) -> Row:
    """Return the same for the meta-NAME.yaml of a published trace, whose ids are only labels.

    Raises ManifestError where it is not YAML, or nested deeper.
    """
    try:
        spelled = _plain_fields(content, nesting)
    except (yaml.YAMLError, UnicodeError, OverflowError, KeyError) as error:  # KeyError: an alias of nothing
        raise ManifestError(f"not YAML: {' '.join(str(error).split())[:_LONGEST_DETAIL]}") from None
    if spelled is None:
        return _bad_layout("no fields")
    fields = _Fields({name: _integer_or_text(value) for name, value in spelled.items()})
    for name in SIZES:
        is_renamed = name == "cp_size" and "cp_size" not in spelled
        fields.size(name, "dsp_size" if is_renamed else name, is_required=True)
    fields.product()
    labels = {name: spelled[name] for name in _PUBLISHED_LABELS if name in spelled}
    return fields.row() | {"labels": labels or None}


def _plain_fields(content: bytes, nesting: int) -> dict[str, str] | None:
    """Fields of the one document whose key and value are plain, as they are spelled; None without fields.

    YAML would make a number of run_id 007 and a truth value of the trial NO. Its events come one by one:
    trees of nodes are built by recursion, as deep as the one that wrote the file likes.
    """
    nodes: list[str | None] = []
    anchors: dict[str, str | None] = {}
    level, is_mapping = 0, False
    for event in _events(content):
        is_start = isinstance(event, yaml.CollectionStartEvent)
        level += is_start - isinstance(event, yaml.CollectionEndEvent)
        if level > nesting:
            raise ManifestError(too_deep(nesting))
        is_mapping = is_mapping or (level == 1 and isinstance(event, yaml.MappingStartEvent))
        if isinstance(event, yaml.NodeEvent):
            is_alias, anchor = isinstance(event, yaml.AliasEvent), event.anchor or ""
            value = anchors[anchor] if is_alias else getattr(event, "value", None)
            anchors[anchor] = value
            if level == 1 + is_start:
                nodes.append(value)
    pairs = zip(nodes[::2], nodes[1::2], strict=False)
    fields = {key: value for key, value in pairs if key is not None and value is not None}
    return fields if is_mapping else None


def _events(content: bytes) -> Iterator[yaml.Event]:
    """Events of the one document of a file."""
    documents = 0
    for event in yaml.parse(content, Loader=_LOADER):
        documents += isinstance(event, yaml.DocumentStartEvent)
        if documents > 1:
            raise ManifestError("not YAML: more than one document")
        yield event


def _integer_or_text(spelled: str) -> int | str | None:
    if spelled in {"", "~", "null"}:
        return None
    return int(spelled) if re.fullmatch(r"[-+]?[0-9]{1,20}", spelled) else spelled


def _bad_layout(detail: str) -> Row:
    return no_manifest(detail) | {"manifest_status": STATUS_BAD_LAYOUT}


class _Fields:
    """Takes fields out of a manifest one by one and collects what is wrong with them."""

    def __init__(self, manifest: Mapping[str, Any]) -> None:
        self._manifest = manifest
        self._row: Row = dict.fromkeys(JOBS.value_schema.names)
        self._defects: list[str] = []

    def row(self) -> Row:
        """Return the columns; good only if nothing was wrong."""
        if self._defects:
            detail = "; ".join(self._defects)
            return self._row | {"manifest_status": STATUS_BAD_LAYOUT, "manifest_detail": detail}
        return self._row

    def identity(self, name: str, folder: str) -> None:
        """Hold an id against the one in the folder's name."""
        value = self._manifest.get(name)
        if value is None:
            self._missing(name)
        elif value != folder:
            self._defects.append(f"{name} is {shown(value)}, the folder's is {shown(folder)}")

    def size(self, name: str, in_manifest: str, *, is_required: bool) -> None:
        """Take an integer that is at least 1."""
        value = self._manifest.get(in_manifest)
        if value is None:
            if is_required:
                self._missing(in_manifest)
            return
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        if is_integer and abs(value) <= _LARGEST:
            self._row[name] = value
        if not is_integer or not 1 <= value <= _LARGEST:
            self._wrong(in_manifest, f"an integer from 1 to {_LARGEST}")

    def product(self) -> None:
        """Hold world_size against the product of the sizes, where all of them are there."""
        sizes = [self._row[name] for name in _PRODUCT]
        world_size = self._row["world_size"]
        if None not in (*sizes, world_size) and math.prod(sizes) != world_size:
            factors = " x ".join(map(str, sizes))
            self._defects.append(f"world_size is {world_size}, but {' x '.join(_PRODUCT)} = {factors}")

    def optional(self) -> None:
        """Take everything that a job.json may leave out."""
        for name in _TEXTS:
            self._take(name, "text", is_text)
        for name in _TIMES:
            self._time(name)
        self._take("gpu_hours", f"a number from 0 to {_MOST_GPU_HOURS:.0e}", _is_amount)
        for name in ("restarts", "warm_up_steps"):
            self._take(name, f"an integer from 0 to {_LARGEST}", _is_count)
        self._take("transfers", f"one of {', '.join(TRANSFERS)}", lambda value: value in TRANSFERS)
        self._labels()
        if self._row["gpu_hours"] is not None:
            self._row["gpu_hours"] = float(self._row["gpu_hours"])

    def _take(self, name: str, wanted: str, is_good: Callable[[object], bool]) -> None:
        value = self._manifest.get(name)
        if value is None:
            return
        if is_good(value):
            self._row[name] = value
        else:
            self._wrong(name, wanted)

    def _time(self, name: str) -> None:
        value = self._manifest.get(name)
        if value is None:
            return
        try:
            moment = datetime.fromisoformat(value)
            in_utc = moment.astimezone(UTC)
        except (TypeError, ValueError, OverflowError):  # no text, no time, beyond the years 1 to 9999
            self._wrong(name, "an ISO 8601 time with zone")
            return
        if moment.tzinfo is None:
            self._wrong(name, "an ISO 8601 time with zone")
        else:
            self._row[name] = in_utc

    def _labels(self) -> None:
        """Labels are text; numbers and truth values are stored as JSON spells them."""
        labels = self._manifest.get("labels")
        if labels is None:
            return
        if not isinstance(labels, dict):
            self._wrong("labels", "an object")
            return
        texts = {}
        for name, value in labels.items():
            if not is_text(name) or not _is_label(value):
                self._defects.append(f"label {shown(name)} is {shown(value)}, not text")
            elif value is not None:
                texts[name] = value if isinstance(value, str) else shown(value)
        self._row["labels"] = texts

    def _missing(self, name: str) -> None:
        self._defects.append(f"{name} is {'null' if name in self._manifest else 'missing'}")

    def _wrong(self, name: str, wanted: str) -> None:
        self._defects.append(f"{name} is {shown(self._manifest[name])}, not {wanted}")


def _is_label(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, NotANumber)
    return value is None or is_number or is_text(value)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST


def _is_amount(value: object) -> bool:
    """Whether a value is a plausible number of GPU hours; NaN is not."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MOST_GPU_HOURS
