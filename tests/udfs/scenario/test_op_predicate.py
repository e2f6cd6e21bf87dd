"""A predicate is refused, or chooses the ops for which it is true in the log."""

from collections.abc import Callable
from functools import cache
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from schemas.vocabulary import OP_TYPES
from tests.support.random_jobs import named_job
from udfs.errors import PredicateError
from udfs.kernel import op_type as ot
from udfs.kernel.recorded.first_pass import read
from udfs.kernel.what_if import OPS_TOGETHER
from udfs.layout import read_layout
from udfs.scenario import op_predicate
from udfs.scenario.op_columns import COLUMNS, TEXT_COLUMNS, BlockColumns, WorkerRows
from udfs.scenario.op_predicate import parse_predicate
from udfs.simulate.rank_rows import ReplayedRows, replayed_rows

JOBS = {name: named_job(name) for name in ("usual", "disagreeing", "data_loads")}
OpKey = tuple[int, int, int, str, int]
"""Key of one op: (step, dp_rank, pp_rank, op_type, ordinal by start within the row)."""


@cache
def traced(name: str) -> tuple[pa.Table, ReplayedRows, list[BlockColumns]]:
    """Return the log of a job with odd hosts or microbatch numbers, and what the simulator reads of it."""
    layout = read_layout(JOBS[name].manifest)
    lines = JOBS[name].rank_steps.to_pylist()
    for number, row in enumerate(lines):
        row["host"] = (None, "node-1", "node-22", "node_3", "n.2", "nx2")[number % 6]
        row["microbatch"] = [microbatch + (0, 1, 100)[number // 2 % 3] for microbatch in row["microbatch"]]
    table = pa.Table.from_pylist(lines, schema=JOBS[name].rank_steps.schema)
    rows = replayed_rows(table, layout)
    blocks = read(rows, layout, OPS_TOGETHER, diagnosed=False).blocks
    workers = WorkerRows.of(rows)
    return table, rows, [BlockColumns(block, rows.steps, workers) for block in blocks]


@cache
def logged(name: str) -> dict[OpKey, dict[str, Any]]:
    """Return each replayed op as a row of the log; a column without a meaning for the op is None."""
    table, rows, _ = traced(name)
    ops = {}
    for row in table.take(pa.array(rows.replayed_row.ravel())).to_pylist():
        ordinals = dict.fromkeys(row["op"], -1)
        for _, place in sorted((start_us, place) for place, start_us in enumerate(row["start_us"])):
            code = row["op"][place]
            ordinals[code] += 1
            op = {column: row[column] for column in ("step", "rank", "dp_rank", "pp_rank", "host")}
            op["op_type"] = OP_TYPES[code]
            op["microbatch"] = row["microbatch"][place] if code in (*ot.COMPUTE, ot.DATA_LOAD) else None
            op["model_chunk"] = row["model_chunk"][place] if code in (*ot.COMPUTE, *ot.DP_STREAM) else None
            ops[op["step"], op["dp_rank"], op["pp_rank"], op["op_type"], ordinals[code]] = op
    return ops


def chosen(name: str, predicate: str) -> set[OpKey]:
    found = set()
    for columns in traced(name)[2]:
        graph = columns.block.graph
        mask = parse_predicate(predicate).chosen(columns)
        for op, step, dp in np.argwhere(np.broadcast_to(mask, columns.block.duration_s.shape)).tolist():
            ref = graph.ref(op)
            number = int(columns.steps[columns.block.steps[step]])
            dp_rank = dp if graph.has_dp_lanes else ref.dp_rank
            found.add((number, dp_rank, ref.stage, OP_TYPES[ref.op_type], ref.ordinal))
    return found


@pytest.mark.parametrize("name", JOBS)
def test_every_value_of_every_column_is_where_the_log_has_it(name: str) -> None:
    for column in COLUMNS:
        for value in {op[column] for op in logged(name).values()}:
            quoted = f"'{value}'" if column in TEXT_COLUMNS else value
            predicate = f"{column} IS NULL" if value is None else f"{column} = {quoted}"
            wanted = {key for key, op in logged(name).items() if op[column] == value}
            assert chosen(name, predicate) == wanted, predicate


@pytest.mark.parametrize(
    ("predicate", "is_chosen"),
    [
        ("NOT (microbatch <> 1 OR NULL)", lambda _: False),
        ("microbatch NOT IN (0, NULL) OR dp_rank = 1", lambda op: op["dp_rank"] == 1),
        ("host IS NULL OR NOT host LIKE 'n_2'", lambda op: op["host"] not in {"n.2", "nx2"}),
        (
            "op_type IN ('gc', NULL) -- here\n AND PP_RANK == 3",
            lambda op: (op["op_type"], op["pp_rank"]) == ("gc", 3),
        ),
        ("host NOT BETWEEN 'node-1' AND 'node-3'", lambda op: op["host"] in {"n.2", "node_3", "nx2"}),
        (" OR ".join(f"dp_rank = {number}" for number in range(1, 3_000)), lambda op: op["dp_rank"] > 0),
    ],
)
def test_an_op_is_chosen_where_the_predicate_is_true_not_where_it_is_null(
    predicate: str, is_chosen: Callable[[dict[str, Any]], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = {key for key, op in logged("usual").items() if is_chosen(op)}
    assert chosen("usual", predicate) == wanted
    monkeypatch.setattr(op_predicate, "_TOGETHER", 100)
    assert chosen("usual", predicate) == wanted, "predicates that are evaluated in parts"


def test_a_unit_without_logged_hosts() -> None:
    _, rows, (columns,) = traced("usual")
    bare = JOBS["usual"].rank_steps.drop_columns(["host"])
    for table in (bare, bare.append_column("host", pa.nulls(len(bare)))):
        replayed = replayed_rows(table, read_layout(JOBS["usual"].manifest))
        hostless = BlockColumns(columns.block, rows.steps, WorkerRows.of(replayed))
        assert not parse_predicate("host = 'a' OR NOT host LIKE '%'").chosen(hostless).any()
        assert parse_predicate("host IS NULL").chosen(hostless).all()


def test_conditions_are_evaluated_along_the_axes_of_their_columns() -> None:
    _, _, (columns,) = traced("usual")
    ops, steps, dp = columns.block.duration_s.shape
    shapes = [
        parse_predicate(f"{name} IS NULL").chosen(columns).shape for name in ("pp_rank", "dp_rank", "step")
    ]
    assert shapes == [(ops, 1, 1), (1, 1, dp), (1, steps, 1)]


@pytest.mark.parametrize(
    ("predicate", "message"),
    [
        ("pp_rnk = 3", "no column pp_rnk: did you mean pp_rank?"),
        ("op_type = gc", "no column gc: did you mean 'gc'?"),
        ("op_type IN ('gc', 'optimiser')", "no op type 'optimiser': did you mean 'optimizer'?"),
        (
            "op_type = 'forward-pp-comm'",
            "no op type 'forward-pp-comm': did you mean 'forward-send' or",
        ),
        ("host IN ('a', 1)", "not understood: host IN ('a', 1), with a number and text"),
        ("pp_rank", "pp_rank is a number, not a condition"),
        ("host = 'é' AND (step = 1 OR 2)", "not understood: step = 1 OR 2, with a condition and a number"),
        ("step = 1" + "0" * 50, "Out of Range Error"),
        ("TRUE; SELECT TRUE", "not understood: TRUE; SELECT TRUE is not one condition"),
        ("TRUE FROM read_csv('a')", "not understood: TRUE FROM read_csv('a') is not one condition"),
        ("TRUE, FALSE", "not understood: TRUE, FALSE is not one condition"),
        ("TRUE AS a", "not understood: TRUE AS a is not one condition"),
        ("TRUE) FROM ops WHERE (TRUE", "not understood: syntax error"),
        ("pragma version", "not understood: pragma version is not one condition"),
        ("step IN (FROM read_csv('a'))", "not understood: (FROM read_csv('a'))"),
        ("host = getenv('HOME')", "not understood: getenv('HOME')"),
        ("NOT " * 900 + "TRUE", "too deeply nested"),
        ("(" * 3_000 + "TRUE" + ")" * 3_000, "not understood: Max expression depth"),
    ],
)
def test_a_predicate_that_cannot_be_parsed_gives_one_line(predicate: str, message: str) -> None:
    with pytest.raises(PredicateError) as refused:
        parse_predicate(predicate)
    (line,) = str(refused.value).splitlines()
    assert line.startswith(message)
    assert "; use the columns op_type, host, pp_rank, dp_rank, step, microbatch, model_chunk, rank" in line


def test_the_database_reaches_nothing_even_if_it_were_asked() -> None:
    queries = ["FROM read_csv('a')", "COPY (SELECT 1) TO 'a'", "ATTACH 'a'", "LOAD httpfs", "SET threads = 2"]
    for query in queries:
        with pytest.raises(duckdb.Error, match=r"disabled|locked"):
            op_predicate._database().cursor().execute(query)
