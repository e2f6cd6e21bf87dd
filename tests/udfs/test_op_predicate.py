"""Predicates over ops against DuckDB, op by op."""

from functools import cache
from itertools import product
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.vocabulary import OP_TYPES
from tests.random_jobs import disagreeing_job, named_job
from udfs.kernel import op_type as ot
from udfs.kernel.trace import Trace, build_trace
from udfs.layout import read_layout
from udfs.op_columns import NUMBER_COLUMNS, TEXT_COLUMNS, BlockColumns, WorkerRows
from udfs.op_predicate import parse_predicate
from udfs.rank_rows import ReplayedRows, replayed_rows

JOBS = {
    "usual": named_job("usual"),
    "virtual": named_job("virtual_pipeline"),
    "disagreeing": disagreeing_job(),
}
OpKey = tuple[int, int, int, str, int]
"""(step, dp_rank, pp_rank, op_type, ordinal by start within the row): one op."""


def uneven(rank_steps: pa.Table) -> pa.Table:
    """Rows that lose their host or move to another, and that count their microbatches from elsewhere."""
    rows = rank_steps.to_pylist()
    for number, row in enumerate(rows):
        row["host"] = (None, "node-1", "node-22", "node_3", "n.2", "nx2")[number % 6]
        row["microbatch"] = [microbatch + (0, 1, 100)[number // 2 % 3] for microbatch in row["microbatch"]]
    return pa.Table.from_pylist(rows, schema=rank_steps.schema)


@cache
def traced(name: str) -> tuple[pa.Table, ReplayedRows, Trace]:
    layout = read_layout(JOBS[name].manifest)
    table = uneven(JOBS[name].rank_steps)
    rows = replayed_rows(table, layout)
    return table, rows, build_trace(rows.stages(), layout, len(rows.steps))


@cache
def exploded(name: str) -> pa.Table:
    """One row per replayed op, from the log itself; null where the contract gives a column no meaning."""
    table, rows, _ = traced(name)
    ops: list[dict[str, Any]] = []
    for row in table.take(pa.array(rows.replayed_row.ravel())).to_pylist():
        ordinals: dict[int, int] = {}
        for _, place in sorted((start_us, place) for place, start_us in enumerate(row["start_us"])):
            code = row["op"][place]
            ordinals[code] = ordinals.get(code, -1) + 1
            has_chunk = code in (*ot.COMPUTE, *ot.DP_STREAM)
            ops.append(
                {column: row[column] for column in ("step", "rank", "dp_rank", "pp_rank", "host")}
                | {
                    "op_type": OP_TYPES[code],
                    "ordinal": ordinals[code],
                    "microbatch": row["microbatch"][place] if code in ot.COMPUTE else None,
                    "model_chunk": row["model_chunk"][place] if has_chunk else None,
                }
            )
    return pa.Table.from_pylist(ops)


def chosen_by_duckdb(name: str, predicate: str) -> set[OpKey]:
    with duckdb.connect() as connection:
        connection.register("ops", exploded(name))
        key = "step, dp_rank, pp_rank, op_type, ordinal"
        return set(connection.sql(f"SELECT {key} FROM ops WHERE {predicate}").fetchall())


def chosen(name: str, predicate: str) -> set[OpKey]:
    table, rows, trace = traced(name)
    workers = WorkerRows.of(table, rows)
    understood = parse_predicate(predicate)
    found = set()
    for block in trace.blocks:
        mask = understood.chosen(BlockColumns(block, rows.steps, workers))
        for op, step, dp in np.argwhere(np.broadcast_to(mask, block.start_s.shape)).tolist():
            ref = block.graph.ref(op)
            dp_rank = dp if block.graph.has_dp_lanes else ref.dp_rank
            number = int(rows.steps[block.steps[step]])
            found.add((number, dp_rank, ref.stage, OP_TYPES[ref.op_type], ref.ordinal))
    return found


def quoted(word: str) -> str:
    return f"'{word}'"


NUMBERS = st.one_of(st.integers(-2, 9), st.sampled_from([100, 101, 10_000, 2.5, 1e3, 10**30, -7])).map(str)
OP_TYPE_WORDS = st.sampled_from(OP_TYPES).map(quoted)
HOST_WORDS = st.sampled_from(["node-1", "node-22", "node_3", "n.2", "", "zz"]).map(quoted)
PATTERNS = st.sampled_from(["%", "node-_", "node_%", "%-compute", "grads%", "n.2", "", "_", "n%2"]).map(
    quoted
)
NUMBER_NAMES = st.sampled_from(NUMBER_COLUMNS)
COMPARISONS = st.sampled_from(["=", "!=", "<>", "<", "<=", ">", ">="])
NEGATIONS = st.sampled_from(["", "NOT "])


def terms(names: st.SearchStrategy[str], words: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Every test of a column against literals."""
    literals = st.one_of(words, words, words, st.just("NULL"))
    lists = st.lists(literals, min_size=1, max_size=4).map(", ".join)
    return st.one_of(
        st.tuples(names, COMPARISONS, literals).map(" ".join),
        st.tuples(literals, COMPARISONS, names).map(" ".join),
        st.builds("{} {}IN ({})".format, names, NEGATIONS, lists),
        st.builds("{} {}BETWEEN {} AND {}".format, names, NEGATIONS, literals, literals),
        st.builds("{} IS {}NULL".format, names, NEGATIONS),
    )


TESTS = st.one_of(
    terms(NUMBER_NAMES, NUMBERS),
    terms(st.just("op_type"), OP_TYPE_WORDS),
    terms(st.just("host"), HOST_WORDS),
    st.tuples(NUMBER_NAMES, COMPARISONS, NUMBER_NAMES).map(" ".join),
    st.builds("{} {}LIKE {}".format, st.sampled_from(TEXT_COLUMNS), NEGATIONS, PATTERNS),
    st.sampled_from(["TRUE", "FALSE", "NULL", "1 = 1", "'a' < 'b'", "2 > NULL"]),
)
PREDICATES = st.recursive(
    TESTS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" AND ", " OR "]), inner).map("".join),
        inner.map("NOT {}".format),
        inner.map("({})".format),
    ),
    max_leaves=6,
)


@pytest.mark.parametrize("name", JOBS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(predicate=PREDICATES)
def test_a_predicate_chooses_the_ops_that_duckdb_does(name: str, predicate: str) -> None:
    assert chosen(name, predicate) == chosen_by_duckdb(name, predicate)


@pytest.mark.parametrize(
    "predicate",
    [
        "host LIKE 'n.2'",
        "host LIKE 'n_2'",
        "host LIKE 'n%2'",
        "host LIKE 'node__'",
        "host LIKE 'node%'",
        "host NOT LIKE 'node%'",
        "op_type LIKE '%-compute' AND microbatch IN (1, 101, -5, 2.5)",
        "step IN (1, 1000000000000000000000000000000)",
        "step < 1000000000000000000000000000000 AND rank > -1000000000000000000000000000000",
        "microbatch NOT IN (0, NULL) OR dp_rank = 1",
    ],
)
def test_what_chance_may_leave_out(predicate: str) -> None:
    assert chosen("usual", predicate) == chosen_by_duckdb("usual", predicate) != set()


def test_numbers_beyond_any_float() -> None:
    assert chosen("usual", "step IN (1, 1e400) AND step < 1e400") == chosen("usual", "step = 1") != set()


@pytest.mark.parametrize("name", JOBS)
def test_every_value_of_every_column_is_where_the_log_has_it(name: str) -> None:
    for column in (*NUMBER_COLUMNS, *TEXT_COLUMNS):
        values = exploded(name).column(column).unique().drop_null().to_pylist()
        for value in values:
            predicate = f"{column} = {quoted(value) if column in TEXT_COLUMNS else value}"
            assert chosen(name, predicate) == chosen_by_duckdb(name, predicate) != set(), predicate
        assert chosen(name, f"{column} IS NULL") == chosen_by_duckdb(name, f"{column} IS NULL")


def test_a_unit_whose_hosts_nobody_logged() -> None:
    job = JOBS["usual"]
    layout = read_layout(job.manifest)
    bare = job.rank_steps.drop_columns(["host"])
    for table in (bare, bare.append_column("host", pa.nulls(len(bare)))):
        rows = replayed_rows(table, layout)
        (block,) = build_trace(rows.stages(), layout, len(rows.steps)).blocks
        columns = BlockColumns(block, rows.steps, WorkerRows.of(table, rows))
        for text in ("host = 'a'", "NOT host = 'a'", "host LIKE '%'", "host IS NOT NULL"):
            assert not parse_predicate(text).chosen(columns).any(), text
        assert parse_predicate("host IS NULL").chosen(columns).all()


def test_what_does_not_depend_on_an_axis_is_not_spread_along_it() -> None:
    _, rows, trace = traced("usual")
    (block,) = trace.blocks
    columns = BlockColumns(block, rows.steps, WorkerRows.of(JOBS["usual"].rank_steps, rows))
    ops, steps, dp = block.start_s.shape
    shapes = {name: columns(name).values.shape for name in (*NUMBER_COLUMNS, *TEXT_COLUMNS)}
    assert shapes == {
        "op_type": (ops, 1, 1),
        "pp_rank": (ops, 1, 1),
        "model_chunk": (ops, 1, 1),
        "dp_rank": (1, 1, dp),
        "step": (1, steps, 1),
        "rank": (ops, 1, dp),
        "host": (ops, 1, dp),
        "microbatch": (ops, steps, dp),
    }


def test_spelling_that_makes_no_difference() -> None:
    wanted = chosen("usual", "pp_rank = 3 AND op_type = 'gc'")
    assert wanted
    for text in (
        'PP_RANK == 3 and Op_Type = "gc"',
        "`pp_rank` = (3)\n  AND (((op_type = 'gc')))",
        "op_type = 'gc' -- the collector\n AND NOT pp_rank <> 3",
    ):
        assert chosen("usual", text) == wanted
    assert parse_predicate(" pp_rank  =\n 3 ").text == "pp_rank = 3"


def test_a_thousand_conditions_in_a_row() -> None:
    assert chosen("usual", " OR ".join(f"step = {step}" for step in range(3_000))) == chosen("usual", "TRUE")


@pytest.mark.parametrize(("left", "right"), list(product(("TRUE", "FALSE", "NULL"), repeat=2)))
def test_three_valued_logic(left: str, right: str) -> None:
    for text in (f"{left} AND {right}", f"{left} OR {right}", f"NOT ({left} AND NOT {right})"):
        assert chosen("usual", text) == chosen_by_duckdb("usual", text), text
