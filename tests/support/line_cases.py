"""Valid and invalid lines of rank logs, each named after its peculiarity, for several tests."""

import json
from typing import Any, Final, NamedTuple

from schemas.vocabulary import OP_CODES

JOB: Final = "gpt"
RUN: Final = "r3"
SIZES: Final = {"dp_size": 2, "pp_size": 2, "tp_size": 1, "cp_size": 1, "vpp_size": 1, "world_size": 4}

GOOD: Final[dict[str, Any]] = {
    "format": "rank-log/1",
    "job_id": JOB,
    "run_id": RUN,
    "rank": 1,
    "dp_rank": 0,
    "pp_rank": 1,
    "tp_rank": 0,
    "cp_rank": 0,
    "host": "node-0123",
    "gpu": 3,
    "step": 2,
    "t0_us": 1767600000000000,
    "op": ["params-all-gather", "forward-recv", "forward-compute"],
    "start_us": [0, 15480.5, 15500],
    "duration_us": [15443, 5.5, 166722.125],
    "microbatch": [-1, -1, 0],
    "model_chunk": [0, 0, 0],
}


def line(*left_out: str, **changes: object) -> bytes:
    """Return the valid line, with some fields left out or changed."""
    return json.dumps(
        {name: value for name, value in (GOOD | changes).items() if name not in left_out}
    ).encode()


def row(**changes: object) -> dict[str, Any]:
    """Return the row of rank_steps for a valid line, without columns of the unit and the file."""
    fields = GOOD | changes
    stored = {name: value for name, value in fields.items() if name not in {"format", "job_id", "run_id"}}
    times = {name: [float(value) for value in fields[name]] for name in ("start_us", "duration_us")}
    return stored | times | {"op": [OP_CODES[name] for name in fields["op"]]}


class BadLine(NamedTuple):
    """An invalid line, the reason for which it is rejected, and a part of the reject's detail."""

    text: bytes
    reason: str
    detail: str = ""


def _in(name: str, value: str) -> bytes:
    """Return the valid line with one value spelled in a way that json.dumps does not produce."""
    return line(**{name: "@"}).replace(b'"@"', value.encode())


_SECOND: Final = line(step=9)

BAD_LINES: Final[dict[str, BadLine]] = {
    # reason not_json
    "torn line": BadLine(line()[:-20], "not_json", "it breaks off"),
    "a byte order mark": BadLine(b"\xef\xbb\xbf" + line(), "not_json", "it begins with a byte order mark"),
    "UTF-16": BadLine(line().decode().encode("utf-16"), "not_json", "it is UTF-16: save it as UTF-8"),
    "packed": BadLine(b"\x1f\x8b\x08\x00", "not_json", "packed by gzip: the name of such a log ends in .gz"),
    "no json": BadLine(b"step 2 done", "not_json"),
    "only a brace": BadLine(b"{", "not_json"),
    "several objects on a line": BadLine(line() + _SECOND, "not_json", "something follows"),
    "two objects and a space": BadLine(line() + b" " + _SECOND, "not_json", "something follows"),
    "an empty object behind": BadLine(line() + b"{}", "not_json", "something follows"),
    "junk behind": BadLine(line() + b" junk", "not_json", "something follows"),
    "junk with a brace behind": BadLine(line() + b" junk}", "not_json", "something follows"),
    "a brace too many": BadLine(line() + b"}", "not_json", "something follows"),
    "single quotes": BadLine(str(GOOD).encode(), "not_json"),
    "an array of objects": BadLine(b"[" + line() + b"," + _SECOND + b"]", "not_json", "not a JSON object"),
    "a number": BadLine(b"7", "not_json", "not a JSON object"),
    "a comma too many": BadLine(line()[:-1] + b",}", "not_json"),
    "a comment": BadLine(line()[:-1] + b"/* end */}", "not_json"),
    "a leading zero": BadLine(_in("rank", "01"), "not_json"),
    "a key twice": BadLine(line()[:-1] + b', "rank": 0}', "not_json", '"rank" occurs twice'),
    "a key twice, equal": BadLine(line()[:-1] + b', "gpu": 3}', "not_json", "twice"),
    "a key twice, one escaped": BadLine(line()[:-1] + b', "r\\u0061nk": 0}', "not_json", "twice"),
    "a key twice, one null": BadLine(line(gpu=None)[:-1] + b', "gpu": null}', "not_json", "twice"),
    "a key twice hidden by a number for text": BadLine(
        line(host=7)[:-1] + b', "rank": 1}', "not_json", "twice"
    ),
    "invalid utf-8": BadLine(line(host="@").replace(b"@", b"\xff"), "not_json", "UTF-8"),
    "invalid utf-8 outside of text": BadLine(line() + b"\xff", "not_json", "UTF-8"),
    "a control character in text": BadLine(line(host="@").replace(b"@", b"a\tb"), "not_json"),
    "NaN in an unknown field": BadLine(line(loss=float("nan")), "not_json", "loss"),
    # reason nested_too_deeply
    "nested without end": BadLine(b'{"x":' + b"[" * 20_000, "nested_too_deeply", "64 levels"),
    "an unknown field nested 600 deep": BadLine(
        line()[:-1] + b',"x":' + b"[" * 600 + b"]" * 600 + b"}", "nested_too_deeply", "64 levels"
    ),
    "nested one too deep": BadLine(
        line()[:-1] + b',"x":' + b"[" * 64 + b"]" * 64 + b"}", "nested_too_deeply", "64 levels"
    ),
    # reason missing_field
    **{
        f"{name} missing": BadLine(line(name), "missing_field", f"{name} is missing")
        for name in GOOD
        if name not in {"tp_rank", "cp_rank", "host", "gpu"}
    },
    "rank null": BadLine(line(rank=None), "missing_field", "rank is null"),
    "start_us null": BadLine(line(start_us=None), "missing_field", "start_us is null"),
    "an empty object": BadLine(b"{}", "missing_field"),
    # reason bad_type
    "another format": BadLine(line(format="rank-log/2"), "bad_type", "rank-log/2"),
    "rank in quotes": BadLine(line(rank="1"), "bad_type", 'rank is "1"'),
    "rank with a decimal": BadLine(_in("rank", "1.0"), "bad_type", "rank"),
    "rank with an exponent": BadLine(_in("rank", "1e0"), "bad_type", "rank"),
    "rank a truth value": BadLine(line(rank=True), "bad_type", "rank"),
    "rank NaN": BadLine(line(rank=float("nan")), "bad_type", "rank"),
    "cp_rank in quotes": BadLine(line(cp_rank="0"), "bad_type", "cp_rank"),
    "gpu a truth value": BadLine(line(gpu=False), "bad_type", "gpu"),
    "gpu beyond 32 bits": BadLine(line(gpu=2**40), "bad_type", "gpu"),
    "step beyond 64 bits": BadLine(line(step=2**70), "bad_type", "step"),
    "step with a decimal": BadLine(_in("step", "2.5"), "bad_type", "step"),
    "t0_us with a decimal": BadLine(_in("t0_us", "1767600000000000.0"), "bad_type", "t0_us"),
    "t0_us in quotes": BadLine(line(t0_us="1767600000000000"), "bad_type", "t0_us"),
    "job_id an object": BadLine(line(job_id={"name": JOB}), "bad_type", "job_id"),
    "host a number": BadLine(line(host=123), "bad_type", "host"),
    "host an array": BadLine(line(host=["node-0123"]), "bad_type", "host"),
    "host half a character pair": BadLine(line(host="node\ud800"), "bad_type", "host"),
    "a long host": BadLine(line(host="n" * 1001), "bad_type", "text of at most 1000 bytes"),
    "a long host of few characters": BadLine(line(host="\u65e5" * 334), "bad_type", "1000 bytes"),
    "op no array": BadLine(line(op="gc"), "bad_type", "op"),
    "op a number": BadLine(line(op=["gc", 7, "gc"]), "bad_type", "element 2 of op"),
    "start_us no array": BadLine(line(start_us=0), "bad_type", "start_us"),
    "a start in quotes": BadLine(line(start_us=[0, "15480.5", 15500]), "bad_type", "element 2 of start_us"),
    "NaN in quotes": BadLine(line(start_us=[0, "NaN", 15500]), "bad_type", "element 2 of start_us"),
    "a start null": BadLine(line(start_us=[0, None, 15500]), "bad_type", "element 2 of start_us"),
    "a duration a truth value": BadLine(
        line(duration_us=[1, 2, True]), "bad_type", "element 3 of duration_us"
    ),
    "a microbatch null": BadLine(line(microbatch=[-1, None, 0]), "bad_type", "element 2 of microbatch"),
    "a microbatch null, rare": BadLine(line(microbatch=[-(2**31), None, 0]), "bad_type", "element 2"),
    "a microbatch with a decimal": BadLine(line(microbatch=[-1, -1, 0.5]), "bad_type", "element 3"),
    "a chunk beyond 32 bits": BadLine(
        line(model_chunk=[0, 0, 2**31]), "bad_type", "element 3 of model_chunk"
    ),
    # reasons unknown_op and array_length
    "unknown op": BadLine(
        line(op=["gc", "fwd", "gc"]), "unknown_op", '"fwd": jobs/emitter/README.md lists the names'
    ),
    "an op without compute": BadLine(
        line(op=["gc", "forward", "gc"]), "unknown_op", '"forward": did you mean forward-compute?'
    ),
    "an op in capitals": BadLine(line(op=["gc", "GC", "gc"]), "unknown_op", '"GC"'),
    "arrays of unequal length": BadLine(line(microbatch=[-1, -1]), "array_length", "microbatch 2"),
    "an empty array": BadLine(line(op=[]), "array_length", "op 0"),
    # reasons negative_time and not_finite
    "a negative start": BadLine(line(start_us=[0, -0.5, 15500]), "negative_time", "element 2 of start_us"),
    "a negative duration": BadLine(line(duration_us=[1, 2, -3]), "negative_time", "element 3 of duration_us"),
    "a negative zero": BadLine(line(t0_us=-1), "negative_time", "t0_us is -1"),
    "minus infinity": BadLine(line(start_us=[0, float("-inf"), 1]), "negative_time", "-Infinity"),
    "NaN": BadLine(line(start_us=[0, float("nan"), 15500]), "not_finite", "NaN"),
    "Infinity": BadLine(line(duration_us=[0, float("inf"), 15500]), "not_finite", "Infinity"),
    "an exponent too large": BadLine(line().replace(b"15480.5", b"1e999"), "not_finite", "start_us"),
    "a long integer": BadLine(line().replace(b"15480.5", b"1" + b"0" * 300), "not_finite", "more than"),
    "a start that overflows": BadLine(line(start_us=[0, 1.7e308, 15500]), "not_finite", "element 2 of start"),
    "a duration that overflows": BadLine(
        line().replace(b"15443", b"1.8e308"), "not_finite", "element 1 of duration_us"
    ),
    "too many digits": BadLine(line().replace(b"15480.5", b"1" * 5000), "not_finite", "start_us"),
    # reasons rank_out_of_range and identity_mismatch
    "rank beyond world_size": BadLine(line(rank=4), "rank_out_of_range", "world_size 4"),
    "a negative rank": BadLine(line(rank=-1), "rank_out_of_range", "rank is -1"),
    "rank beyond 32 bits": BadLine(line(rank=2**40), "rank_out_of_range"),
    "dp_rank out of range": BadLine(line(dp_rank=2), "rank_out_of_range", "dp_size 2"),
    "pp_rank out of range": BadLine(line(pp_rank=2), "rank_out_of_range", "pp_size 2"),
    "tp_rank out of range": BadLine(line(tp_rank=1), "rank_out_of_range", "tp_size 1"),
    "cp_rank out of range": BadLine(line(cp_rank=-1), "rank_out_of_range", "cp_rank is -1"),
    "another job": BadLine(line(job_id="gpt2"), "identity_mismatch", '"gpt2"'),
    "another run": BadLine(line(run_id="r4"), "identity_mismatch", '"r4"'),
    # with several defects, the first reason applies
    "format before missing": BadLine(line("job_id", format="acme-trace/2"), "bad_type", "acme-trace/2"),
    "missing before unknown": BadLine(line("host", "rank", op=["x"] * 3), "missing_field"),
    "type before range": BadLine(line(rank=99, step="2"), "bad_type"),
    "length before sign": BadLine(line(start_us=[-1]), "array_length"),
    "sign before finiteness": BadLine(line(start_us=[float("nan"), -1, 0]), "negative_time"),
    "range before identity": BadLine(line(rank=99, job_id="gpt2"), "rank_out_of_range"),
}
"""Invalid lines by name of the defect; no line may become a row."""


class GoodLine(NamedTuple):
    """A valid line, and the row that it must become."""

    text: bytes
    row: dict[str, Any]


PLAIN_LINES: Final[dict[str, GoodLine]] = {
    "as Python writes it": GoodLine(line(), row()),
    "compact": GoodLine(json.dumps(GOOD, separators=(",", ":")).encode(), row()),
    "keys in another order": GoodLine(json.dumps(GOOD, sort_keys=True).encode(), row()),
    "a carriage return behind": GoodLine(line() + b"\r", row()),
    "a host of digits": GoodLine(line(host="7"), row(host="7")),
    "without what is optional": GoodLine(
        line("tp_rank", "cp_rank", "host", "gpu"), row(tp_rank=None, cp_rank=None, host=None, gpu=None)
    ),
    "nulls where they may be": GoodLine(
        line(tp_rank=None, cp_rank=None, host=None, gpu=None),
        row(tp_rank=None, cp_rank=None, host=None, gpu=None),
    ),
    "integers only": GoodLine(line(start_us=[0, 1, 2]), row(start_us=[0, 1, 2])),
    "exponents": GoodLine(_in("start_us", "[0, 1e3, 2.5E-3]"), row(start_us=[0, 1000, 0.0025])),
    "seventeen digits": GoodLine(line(start_us=[0, 0.1 + 0.2, 1 / 3]), row(start_us=[0, 0.1 + 0.2, 1 / 3])),
    "any integers": GoodLine(
        line(step=-5, gpu=-1, microbatch=[7, 2**31 - 1, -9]),
        row(step=-5, gpu=-1, microbatch=[7, 2**31 - 1, -9]),
    ),
}
"""Valid lines that the reader parses many at a time."""

ODD_LINES: Final[dict[str, GoodLine]] = {
    "spaces around": GoodLine(b" \t" + line() + b"  ", row()),
    "an unknown field": GoodLine(line(loss=1.5), row()),
    "an unknown field nested as deep as may be": GoodLine(
        line()[:-1] + b',"x":' + b"[" * 63 + b"]" * 63 + b"}", row()
    ),
    "an unknown object": GoodLine(line(extra={"loss": [1, {"a": "}"}]}), row()),
    "an escaped key": GoodLine(line().replace(b'"rank"', b'"r\\u0061nk"'), row()),
    "an escaped id": GoodLine(_in("job_id", '"gp\\u0074"'), row()),
    "a host beyond ASCII": GoodLine(line(host="köln-?"), row(host="köln-?")),
    "a host with braces": GoodLine(line(host='a}"{b'), row(host='a}"{b')),
    "the least integer": GoodLine(line(microbatch=[-(2**31), 0, 0]), row(microbatch=[-(2**31), 0, 0])),
    "no ops": GoodLine(
        line(op=[], start_us=[], duration_us=[], microbatch=[], model_chunk=[]),
        row(op=[], start_us=[], duration_us=[], microbatch=[], model_chunk=[]),
    ),
    "a host of 1000 bytes": GoodLine(line(host="n" * 1000), row(host="n" * 1000)),
}
"""Valid lines that the reader may have to parse one by one."""
