"""Test the reading of manifests: job.json, and the meta-*.yaml of published traces."""

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


def parse_manifest(content: bytes) -> dict[str, Any]:
    return manifest_row(manifest_fields(content, NESTING), "gpt", "r3")


def parsed(*left_out: str, **changes: object) -> dict[str, Any]:
    fields = {name: value for name, value in (MANIFEST | changes).items() if name not in left_out}
    found = parse_manifest(json.dumps(fields).encode())
    pa.Table.from_pylist([found], schema=TABLE.value_schema)  # all that was parsed can be stored
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
        part_of="rlhf-7",
        role="actor",
        iterations={"0": 3, "-7": 0, "1200": 2**63 - 1},
        gpu_types={"node-1": "H100", "node-2": "A100"},
        unknown={"is": "ignored"},
    )
    assert found["manifest_status"] is None
    assert (found["ep_size"], found["team"], found["restarts"]) == (8, "language", 0)
    assert found["started_at"] == datetime(2026, 1, 5, 6, 30, tzinfo=UTC)
    assert found["ended_at"] == datetime(2026, 1, 5, 23, 59, 59, 500_000, tzinfo=UTC)
    assert (found["gpu_hours"], type(found["gpu_hours"])) == (384.0, float)
    assert (found["part_of"], found["role"]) == ("rlhf-7", "actor")
    assert found["iterations"] == {0: 3, -7: 0, 1200: 2**63 - 1}
    assert found["labels"] == {"seed": "7", "flash": "true", "lr": "0.1", "note": "x"}
    assert found["gpu_types"] == {"node-1": "H100", "node-2": "A100"}


@pytest.mark.parametrize(
    ("step", "iteration"),
    [("01", 1), ("x", 1), ("9" * 19, 1), ("1", -1), ("1", 2**63), ("1", True), ("1", "1")],
)
def test_a_wrong_iteration_is_named_and_none_is_stored(step: str, iteration: object) -> None:
    found = parsed(iterations={"0": 0, step: iteration})
    assert (found["manifest_status"], found["iterations"]) == ("bad_layout", None)
    assert found["manifest_detail"].startswith(f'iterations "{step}" is ')


@pytest.mark.parametrize("misspelt", ["dp_sizee", "dpsize", "dp-size"])
def test_a_misspelt_size_is_named_beside_the_missing_one(misspelt: str) -> None:
    said = f'dp_size is missing, and "{misspelt}" is unknown: did you mean dp_size?'
    assert parsed("dp_size", **{misspelt: 2, "x_size": 1})["manifest_detail"] == said
    assert parsed("dp_size", d_p=2)["manifest_detail"] == "dp_size is missing"


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("gpuhours", "gpu_hours"),
        ("gpuHours", "gpu_hours"),
        ("GPU-Hours", "gpu_hours"),
        ("gpu_hour", "gpu_hours"),
        ("label", "labels"),
        ("iteration", "iterations"),
        ("blocking_transfer", "blocking_transfers"),
        ("epsize", "ep_size"),
    ],
)
def test_an_optional_field_that_is_misspelt_is_named_and_its_layout_stays_good(
    misspelt: str, meant: str
) -> None:
    said = f'"{misspelt}" is not a field of job.json: did you mean {meant}?'
    found = parsed(**{misspelt: 96})
    assert (found["refused_claims"], found["manifest_status"]) == ([said], None)


@pytest.mark.parametrize("own", ["mp_size", "model_name", "job_name", "owner", "gpu_count", "num_restarts"])
def test_a_producers_own_field_is_ignored(own: str) -> None:
    assert parsed(**{own: "x"}) == parsed()


def test_a_field_beside_the_one_it_is_like_is_the_producers_own() -> None:
    assert parsed(gpu_hours=96.0, gpuhours=96.0) == parsed(gpu_hours=96.0)


@pytest.mark.parametrize(("count", "left_out"), [(25, "5 more such fields"), (21, "1 more such field")])
def test_only_the_first_misspelt_fields_are_named_and_the_others_counted(count: int, left_out: str) -> None:
    fields = {"gpu" + "_" * number + "hours": 96.0 for number in range(2, count + 2)}
    found = parsed(**fields)["refused_claims"]
    assert (len(found), found[-1]) == (21, f"and {left_out}")


def test_null_optional_fields_are_missing() -> None:
    optional = ("ep_size", "team", "started_at", "gpu_hours", "restarts", "labels", "part_of", "iterations")
    assert parsed(**dict.fromkeys(optional)) == parsed()


def test_runs_with_empty_names_are_part_of_no_whole() -> None:
    assert parsed(part_of="", role="") == parsed()


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
        ("part_of", 7),
        ("role", ["actor"]),
        ("iterations", [[0, 1]]),
        ("gpu_types", "H100"),
        ("gpu_types", ["node-1"]),
        ("gpu_types", {"node-1": 7}),
        ("gpu_types", {"node-1": ""}),
        ("gpu_types", {"node-1": "x" * 1001}),
        ("role", "x" * 1001),
        ("gpu_types", {"node-1": None}),
    ],
)
def test_a_wrong_field_is_bad_layout_and_named(name: str, value: object) -> None:
    found = parsed(**{name: value})
    assert found["manifest_status"] == "bad_layout"
    assert found["manifest_detail"].startswith(f"{name} is ")


@pytest.mark.parametrize("name", ["job_id", "run_id"])
def test_an_id_that_is_no_text_is_named_as_such(name: str) -> None:
    assert f"{name} is 17, not text" in parsed(**{name: 17})["manifest_detail"]


def test_defects_are_named_up_to_a_length() -> None:
    """The list of a manifest's defects is cut after 20 defects of a field and after 2,000 characters."""
    detail = parsed(iterations={f"x{number}": 0 for number in range(21)})["manifest_detail"]
    assert detail.count("not a step number") == 20
    assert detail.endswith("; and more iterations")
    assert len(parsed(labels={str(number): [] for number in range(1000)})["manifest_detail"]) == 2000


INTEGER = f"not an integer from 1 to {2**31 - 1}"


@pytest.mark.parametrize(
    ("changes", "detail", "kept"),
    [
        ({"labels": {"a": {"b": 1}, "c": "d"}}, 'label "a" is {"b": 1}, not text', {"labels": {"c": "d"}}),
        (
            {"world_size": 8},
            "world_size is 8, but dp_size x pp_size x tp_size x cp_size = 2 x 4 x 2 x 1",
            {"dp_size": 2, "world_size": 8},
        ),
        (
            {"vpp_size": None, "team": 7, "dp_size": "2", "gpu_hours": 12},
            f'dp_size is "2", {INTEGER}; vpp_size is null; team is 7, not text of at most 1000 bytes',
            {"gpu_hours": 12, "team": None, "dp_size": None},
        ),
        (
            {"dp_size": 400_000_000, "world_size": 3_200_000_000},
            (
                "world_size is 3200000000, not an integer from 1 to 2147483647; "
                "dp_size x pp_size = 400000000 x 4, more than 10000000 workers"
            ),
            {"dp_size": 400_000_000},
        ),
        ({"team": "x" * 1001}, f'team is "{"x" * 59}..., not text of at most 1000 bytes', {"team": None}),
        (
            {"labels": dict.fromkeys(map(str, range(1001)), 1)},
            "labels are 1001, more than 1000",
            {"labels": None},
        ),
        ({"labels": {"a": "x" * 64_000}}, "labels have more than 64000 bytes", {"labels": None}),
        ({"job_id": 7}, "job_id is 7, not text", {}),
        ({"job_id": "x"}, 'job_id is "x", the folder\'s is "gpt"', {}),
    ],
)
def test_all_defects_are_listed_and_what_is_good_is_kept(
    changes: dict[str, object], detail: str, kept: dict[str, object]
) -> None:
    found = parsed(**changes)
    assert (found["manifest_status"], found["manifest_detail"]) == ("bad_layout", detail)
    assert {name: found[name] for name in kept} == kept


@pytest.mark.parametrize("content", [b"", b"{", b"dp_size: 2", b"\xff", b"{} {}", b'{"a": 1, "a": 2}'])
def test_what_is_not_json_is_no_manifest(content: bytes) -> None:
    with pytest.raises(ManifestError, match="not JSON"):
        parse_manifest(content)


def test_json_must_be_an_object_and_may_have_a_byte_order_mark() -> None:
    assert parse_manifest(b"[]")["manifest_detail"] == "not a JSON object but []"
    assert parse_manifest(b"\xef\xbb\xbf" + json.dumps(MANIFEST).encode()) == parsed()


def test_published_meta_gives_sizes_and_labels_as_spelled() -> None:
    found = parse_published_meta(META.encode(), NESTING)
    assert (found["dp_size"], found["cp_size"], found["world_size"]) == (32, 2, 128)
    assert found["labels"] == {"trial_name": "NO", "run_id": "007"}
    assert (found["manifest_status"], found["gpu_hours"]) == (None, None)


def test_published_meta_may_say_cp_size_and_what_no_field_is_called() -> None:
    odd = "? [a, b]\n: 1\n{a: 1}: b\nnodes: [1, 2]\n"
    plain = parse_published_meta(META.encode(), NESTING)
    assert parse_published_meta((META + odd).encode(), NESTING) == plain
    assert parse_published_meta(META.replace("dsp_size", "cp_size").encode(), NESTING) == plain


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
