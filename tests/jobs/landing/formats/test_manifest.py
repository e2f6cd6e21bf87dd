"""Manifests: job.json and the meta-*.yaml of published traces."""

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from jobs.landing.formats.manifest import (
    ManifestError,
    manifest_fields,
    manifest_row,
    no_manifest,
    parse_published_meta,
)
from schemas.ingested_tables import JOBS as TABLE

NESTING = 64
SIZES = {"dp_size": 2, "pp_size": 4, "tp_size": 2, "cp_size": 1, "vpp_size": 1, "world_size": 16}
MANIFEST = {"job_id": "gpt", "run_id": "r3", **SIZES}
META = (
    "trial_name: NO\nrun_id: 007\n"
    "dp_size: 32\ndsp_size: 2\npp_size: 2\ntp_size: 1\nvpp_size: 1\nworld_size: 128\n"
)


def parse_manifest(content: bytes, job_id: str, run_id: str, nesting: int) -> dict[str, Any]:
    return manifest_row(manifest_fields(content, nesting), job_id, run_id)


def parsed(*left_out: str, **changes: object) -> dict[str, Any]:
    fields = {name: value for name, value in (MANIFEST | changes).items() if name not in left_out}
    found = parse_manifest(json.dumps(fields).encode(), "gpt", "r3", NESTING)
    pa.Table.from_pylist([found], schema=TABLE.value_schema)  # whatever it holds can be stored
    return found


def test_a_minimal_manifest_is_good_and_invents_nothing() -> None:
    found = parsed()
    assert {name: found[name] for name in SIZES} == SIZES
    assert {value for name, value in found.items() if name not in SIZES} == {None}
    assert set(found) == set(TABLE.value_schema.names)


def test_optional_fields_are_stored() -> None:
    found = parsed(
        ep_size=8,
        team="language",
        started_at="2026-01-05T08:30:00+02:00",
        ended_at="2026-01-05T23:59:59.5Z",
        gpu_hours=384,
        restarts=0,
        labels={"seed": 7, "flash": True, "lr": 0.1, "note": "x", "none": None},
        unknown={"is": "ignored"},
    )
    assert found["manifest_status"] is None
    assert (found["ep_size"], found["team"], found["restarts"]) == (8, "language", 0)
    assert found["started_at"] == datetime(2026, 1, 5, 6, 30, tzinfo=UTC)
    assert found["ended_at"] == datetime(2026, 1, 5, 23, 59, 59, 500_000, tzinfo=UTC)
    assert (found["gpu_hours"], type(found["gpu_hours"])) == (384.0, float)
    assert found["labels"] == {"seed": "7", "flash": "true", "lr": "0.1", "note": "x"}


def test_null_optional_fields_are_missing() -> None:
    optional = ("ep_size", "team", "started_at", "gpu_hours", "restarts", "labels")
    assert parsed(**dict.fromkeys(optional)) == parsed()


@pytest.mark.parametrize("name", MANIFEST)
def test_a_required_field_missing_or_null_is_bad_layout(name: str) -> None:
    for found, word in ((parsed(name), "missing"), (parsed(**{name: None}), "null")):
        assert (found["manifest_status"], found["manifest_detail"]) == ("bad_layout", f"{name} is {word}")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dp_size", "2"),
        ("dp_size", 2.0),
        ("pp_size", True),
        ("tp_size", 0),
        ("cp_size", -1),
        ("vpp_size", 2**31),
        ("world_size", [16]),
        ("ep_size", 0),
        ("job_id", "other"),
        ("run_id", 3),
        ("team", 7),
        ("model", "\ud800"),
        ("started_at", "2026-01-05T08:30:00"),
        ("started_at", "yesterday"),
        ("ended_at", 1767600000),
        ("ended_at", "0001-01-01T00:00:00+14:00"),
        ("gpu_hours", -1),
        ("gpu_hours", "384"),
        ("gpu_hours", float("nan")),
        ("gpu_hours", 10**400),
        ("gpu_hours", 1e300),
        ("restarts", 1.5),
        ("restarts", -1),
        ("labels", ["a"]),
    ],
)
def test_a_wrong_field_is_bad_layout_and_named(name: str, value: object) -> None:
    found = parsed(**{name: value})
    assert found["manifest_status"] == "bad_layout"
    assert found["manifest_detail"].startswith(f"{name} is ")


def test_a_label_that_is_no_text_is_bad_layout_and_the_others_stay() -> None:
    found = parsed(labels={"a": {"b": 1}, "c": "d"})
    assert (found["manifest_status"], found["labels"]) == ("bad_layout", {"c": "d"})
    assert found["manifest_detail"] == 'label "a" is {"b": 1}, not text'


def test_a_product_that_is_not_world_size_is_bad_layout() -> None:
    found = parsed(world_size=8)
    assert found["manifest_status"] == "bad_layout"
    assert found["manifest_detail"] == (
        "world_size is 8, but dp_size x pp_size x tp_size x cp_size = 2 x 4 x 2 x 1"
    )
    assert found["dp_size"] == 2


def test_all_defects_are_listed() -> None:
    found = parsed("vpp_size", team=7, dp_size="2", gpu_hours=12)
    assert found["manifest_detail"] == (
        f'dp_size is "2", not an integer from 1 to {2**31 - 1}; vpp_size is missing; team is 7, not text'
    )
    assert (found["gpu_hours"], found["team"], found["dp_size"]) == (12, None, None)


def test_a_number_is_no_job_id() -> None:
    found = parse_manifest(json.dumps(MANIFEST | {"job_id": 7}).encode(), "7", "r3", NESTING)
    assert found["manifest_detail"] == 'job_id is 7, the folder\'s is "7"'


@pytest.mark.parametrize("content", [b"", b"{", b"dp_size: 2", b"\xff", b"{} {}", b'{"a": 1, "a": 2}'])
def test_what_is_not_json_is_no_manifest(content: bytes) -> None:
    with pytest.raises(ManifestError, match="not JSON"):
        parse_manifest(content, "gpt", "r3", NESTING)


def test_json_that_is_no_object_is_bad_layout() -> None:
    assert parse_manifest(b"[]", "gpt", "r3", NESTING)["manifest_detail"] == "not a JSON object but []"


def test_a_byte_order_mark_is_no_defect() -> None:
    content = b"\xef\xbb\xbf" + json.dumps(MANIFEST).encode()
    assert parse_manifest(content, "gpt", "r3", NESTING) == parsed()


def test_published_meta_gives_sizes_and_labels_as_spelled() -> None:
    found = parse_published_meta(META.encode(), NESTING)
    assert (found["dp_size"], found["cp_size"], found["world_size"]) == (32, 2, 128)
    assert found["labels"] == {"trial_name": "NO", "run_id": "007"}
    assert (found["manifest_status"], found["gpu_hours"]) == (None, None)


def test_what_has_a_list_or_a_map_for_a_name_is_passed_over() -> None:
    odd = "? [a, b]\n: 1\n{a: 1}: b\nnodes: [1, 2]\n"
    assert parse_published_meta((META + odd).encode(), NESTING) == parse_published_meta(
        META.encode(), NESTING
    )


def test_published_meta_may_say_cp_size() -> None:
    assert (
        parse_published_meta(META.replace("dsp_size", "cp_size").encode(), NESTING)["manifest_status"] is None
    )


@pytest.mark.parametrize(
    ("content", "detail"),
    [
        (META.replace("dsp_size: 2\n", ""), "dsp_size is missing"),
        (META.replace("tp_size: 1", "tp_size:"), "tp_size is null"),
        (META.replace("tp_size: 1", "tp_size: one"), 'tp_size is "one", not an integer'),
        (META.replace("tp_size: 1", "tp_size: 1.0"), 'tp_size is "1.0", not an integer'),
        (META.replace("tp_size: 1", "tp_size: [1]"), "tp_size is missing"),
        (META.replace("world_size: 128", "world_size: 64"), "world_size is 64, but"),
        ("- a list", "no fields"),
    ],
)
def test_published_meta_with_a_defect_is_bad_layout(content: str, detail: str) -> None:
    found = parse_published_meta(content.encode(), NESTING)
    assert found["manifest_status"] == "bad_layout"
    assert detail in found["manifest_detail"]


@pytest.mark.parametrize("content", [b"a: [1", b"\xff\xfe\xff", b"a: b: c", b"a: 1\n---\nb: 2\n", b"\x00"])
def test_what_is_not_yaml_is_no_manifest(content: bytes) -> None:
    with pytest.raises(ManifestError, match="not YAML"):
        parse_published_meta(content, NESTING)


def test_no_manifest_is_a_row_of_nulls() -> None:
    found = no_manifest("none there")
    assert (found.pop("manifest_status"), found.pop("manifest_detail")) == ("no_manifest", "none there")
    assert set(found.values()) == {None}
