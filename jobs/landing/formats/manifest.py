"""Parse the manifest of a unit: job.json beside rank logs, meta-NAME.yaml beside a published trace.

Either becomes a row of the table jobs, of which manifest_status and manifest_detail state the defects. A
missing field is null. A wrong field is named in manifest_detail and null, but a wrong size is stored if it
fits its column.
"""

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import yaml

from jobs.landing.formats.manifest_fields import iterations_of, labels_of, meant_for, misspelt
from jobs.landing.formats.rows import MOST_TEXT, Bounds, FileError, plain
from jobs.landing.formats.strict_json import StrictJsonError, TooDeepError, is_integer, is_name, parse, shown
from schemas.ingested_tables import JOBS
from schemas.vocabulary import TRANSFER_OPS, TRANSFERS, Reason, Status

PRODUCT: Final = ("dp_size", "pp_size", "tp_size", "cp_size")
SIZES: Final = (*PRODUCT, "vpp_size", "world_size")
_LARGEST: Final = 2**31 - 1
_LONGEST_DETAIL: Final = 500
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's loader if it is installed, because it is a hundred times as fast as PyYAML's own."""
_MOST_GPU_HOURS: Final = 1e9
"""GPU-hours of 40 million GPUs in a day. With this limit, sums over a fleet stay finite for any manifests."""


def _time(value: Any) -> datetime | None:  # noqa: ANN401  # any JSON value
    try:
        moment = datetime.fromisoformat(value)
        return moment.astimezone(UTC) if moment.tzinfo is not None else None
    except (TypeError, ValueError, OverflowError):  # no text, no time, beyond the years 1 to 9999
        return None


def _amount(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST_GPU_HOURS:
        return None
    return float(value)


def _types(value: object) -> dict[str, str] | None:
    if not isinstance(value, dict) or not all(
        is_name(each, MOST_TEXT) and each for pair in value.items() for each in pair
    ):
        return None
    return value


def _transfer_ops(value: object) -> list[str] | None:
    if not isinstance(value, list) or not all(
        isinstance(each, str) and each in TRANSFER_OPS for each in value
    ):
        return None
    return [each for each in TRANSFER_OPS if each in value]


_OF_A_WHOLE: Final = ("part_of", "role")
"""Fields of a run that is a part of a larger whole; launchers leave them empty for other runs."""

_TEXT: Final = f"text of at most {MOST_TEXT} bytes"
_TEXTS: Final = (_TEXT, lambda value: value if is_name(value, MOST_TEXT) else None)
_COUNTS: Final = (
    f"an integer from 0 to {_LARGEST}",
    lambda value: value if is_integer(value, 0, _LARGEST) else None,
)
_OPTIONAL: Final[dict[str, tuple[str, Callable[[object], object]]]] = {
    **dict.fromkeys(("cluster", "team", "model", "framework", "gpu_type", "source_format"), _TEXTS),
    **dict.fromkeys(("started_at", "ended_at"), ("an ISO 8601 time with zone", _time)),
    **dict.fromkeys(_OF_A_WHOLE, _TEXTS),
    "gpu_hours": (f"a number from 0 to {_MOST_GPU_HOURS:.0e}", _amount),
    **dict.fromkeys(("restarts", "warm_up_steps"), _COUNTS),
    "gpu_types": (f"an object of host and type, both {_TEXT}", _types),
    "blocking_transfers": (f"a list of {', '.join(TRANSFER_OPS)}", _transfer_ops),
    "transfers": (f"one of {', '.join(TRANSFERS)}", lambda value: value if value in TRANSFERS else None),
}
"""Optional fields of a job.json besides labels and iterations: name -> description of valid values, and a
function that returns the value to store, None for a wrong value."""

Row = dict[str, Any]


class ManifestError(FileError):
    """Raised for a manifest that cannot be read; its unit counts as a unit without a manifest."""

    def __init__(self, detail: str) -> None:
        super().__init__(Reason.UNREADABLE_FILE, detail)


def no_manifest(detail: str) -> Row:
    """Return the columns of a unit without a manifest: nulls, and the reason."""
    row: Row = dict.fromkeys(JOBS.value_schema.names)
    return row | {"manifest_status": Status.NO_MANIFEST, "manifest_detail": detail}


def manifest_fields(content: bytes, nesting: int) -> object:
    """Parse a job.json; return its JSON value, which is an object if the manifest is valid.

    nesting : most levels of nested arrays and objects
    Raises ManifestError for other text than JSON, and for deeper nesting.
    """
    try:
        return parse(content.removeprefix(b"\xef\xbb\xbf"), nesting)
    except StrictJsonError as error:
        raise ManifestError(f"job.json is {error}: correct it") from None


def manifest_row(manifest: object, job_id: str, run_id: str, workers: int = Bounds().workers) -> Row:
    """Convert the fields of a job.json to columns of jobs, without the unit's key.

    job_id, run_id : as the folder names them
    workers : most workers (dp_size x pp_size) of a unit
    """
    if not isinstance(manifest, dict):
        return _bad_layout(f"not a JSON object but {shown(manifest)}")
    fields = _Fields(manifest)
    fields.identity("job_id", job_id)
    fields.identity("run_id", run_id)
    fields.sizes(workers)
    fields.size("ep_size", is_required=False)
    fields.optional()
    fields.many("labels", labels_of)
    fields.many("iterations", iterations_of)
    fields.misspelt()
    return fields.row()


def parse_published_meta(content: bytes, nesting: int, workers: int = Bounds().workers) -> Row:
    """Convert the meta-NAME.yaml of a published trace to columns of jobs; its ids are only labels.

    Raises ManifestError for other text than YAML, and for deeper nesting than `nesting` levels.
    """
    try:
        spelled = _plain_fields(content, nesting)
    except (yaml.YAMLError, UnicodeError, OverflowError, KeyError) as error:  # KeyError: an alias of nothing
        raise ManifestError(f"not YAML: {' '.join(str(error).split())[:_LONGEST_DETAIL]}") from None
    if spelled is None:
        return _bad_layout("no fields")
    fields = _Fields({name: _integer_or_text(value) for name, value in spelled.items()})
    fields.sizes(workers, cp_size="cp_size" if "cp_size" in spelled else "dsp_size")
    labels = {name: spelled[name] for name in ("trial_name", "run_id") if name in spelled}
    return fields.row() | {"labels": labels or None}


def _plain_fields(content: bytes, nesting: int) -> dict[str, str] | None:
    """Return the plain key/value fields of a YAML document as written; None if there are none.

    Values stay text, because YAML would turn run_id 007 into the number 7 and the trial NO into false. The
    parser's events are read one by one, because its trees are built by recursion, as deep as the file is
    nested.
    """
    nodes: list[str | None] = []
    anchors: dict[str, str | None] = {}
    level, documents, is_mapping = 0, 0, False
    for event in yaml.parse(content, Loader=_LOADER):
        documents += isinstance(event, yaml.DocumentStartEvent)
        if documents > 1:
            raise ManifestError("not YAML: more than one document")
        is_start = isinstance(event, yaml.CollectionStartEvent)
        level += is_start - isinstance(event, yaml.CollectionEndEvent)
        if level > nesting:
            raise ManifestError(str(TooDeepError(nesting)))
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


def _integer_or_text(spelled: str) -> int | str | None:
    if spelled in {"", "~", "null"}:
        return None
    return int(spelled) if re.fullmatch(r"[-+]?[0-9]{1,20}", spelled) else spelled


def _bad_layout(detail: str) -> Row:
    return no_manifest(detail) | {"manifest_status": Status.BAD_LAYOUT}


class _Fields:
    """Reader of a manifest that checks its fields one by one and collects their defects."""

    def __init__(self, manifest: Mapping[str, Any]) -> None:
        self._manifest = manifest
        self._row: Row = dict.fromkeys(JOBS.value_schema.names)
        self._defects: list[str] = []

    def row(self) -> Row:
        """Return the columns of jobs, with manifest_status and manifest_detail if fields are wrong."""
        if self._defects:
            detail = plain("; ".join(self._defects))
            return self._row | {"manifest_status": Status.BAD_LAYOUT, "manifest_detail": detail}
        return self._row

    def identity(self, name: str, folder: str) -> None:
        """Note a defect if an id in the manifest is missing or differs from the folder's name."""
        value = self._manifest.get(name)
        if value is None:
            self._missing(name)
        elif not isinstance(value, str):
            self._defects.append(f"{name} is {shown(value)}, not text")
        elif value != folder:
            self._defects.append(f"{name} is {shown(value)}, the folder's is {shown(folder)}")

    def sizes(self, workers: int, cp_size: str = "cp_size") -> None:
        """Read all sizes; world_size must be the product of the sizes that make up the ranks.

        workers : largest valid dp_size x pp_size
        cp_size : name of the cp_size in the manifest
        """
        for name in SIZES:
            self.size(name, cp_size if name == "cp_size" else name)
        sizes = [self._row[name] for name in PRODUCT]
        world_size = self._row["world_size"]
        if None not in (*sizes, world_size) and math.prod(sizes) != world_size:
            factors = " x ".join(map(str, sizes))
            self._defects.append(f"world_size is {world_size}, but {' x '.join(PRODUCT)} = {factors}")
        if None not in sizes[:2] and math.prod(sizes[:2]) > workers:
            self._defects.append(f"dp_size x pp_size = {sizes[0]} x {sizes[1]}, more than {workers} workers")

    def size(self, name: str, in_manifest: str = "", *, is_required: bool = True) -> None:
        """Read an integer that is at least 1."""
        in_manifest = in_manifest or name
        value = self._manifest.get(in_manifest)
        if value is None:
            if is_required:
                self._missing(in_manifest)
            return
        if is_integer(value, -_LARGEST, _LARGEST):
            self._row[name] = value
        if not is_integer(value, 1, _LARGEST):
            self._wrong(in_manifest, f"an integer from 1 to {_LARGEST}")

    def optional(self) -> None:
        """Read the optional fields of a job.json."""
        for name, (wanted, stored) in _OPTIONAL.items():
            value = self._manifest.get(name)
            is_empty = name in _OF_A_WHOLE and value == ""
            if value is not None and not is_empty:
                self._row[name] = stored(value)
                if self._row[name] is None:
                    self._wrong(name, wanted)

    def many(self, name: str, read: Callable[[object], tuple[object, list[str]]]) -> None:
        """Read a field with many values: `labels`, or `iterations`, the iteration of each step."""
        given = self._manifest.get(name)
        if given is not None:
            self._row[name], defects = read(given)
            self._defects += defects

    def misspelt(self) -> None:
        """Note unknown fields whose names resemble those of absent optional fields."""
        optional = ("ep_size", *_OPTIONAL, "labels", "iterations")
        absent = [name for name in optional if self._manifest.get(name) is None]
        self._row["refused_claims"] = misspelt(self._manifest, absent) or None

    def _missing(self, name: str) -> None:
        what = "null" if name in self._manifest else "missing"
        near = meant_for(name, self._manifest)
        meant = "" if near is None else f", and {shown(near)} is unknown: did you mean {name}?"
        self._defects.append(f"{name} is {what}{meant}")

    def _wrong(self, name: str, wanted: str) -> None:
        self._defects.append(f"{name} is {shown(self._manifest[name])}, not {wanted}")
