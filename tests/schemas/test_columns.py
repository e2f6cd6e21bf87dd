import pyarrow as pa
import pytest

from schemas import symbols
from schemas.columns import declared, rules, struct
from schemas.symbols import SYMBOLS
from schemas.table import Column, Expectation, SchemaError
from schemas.vocabulary import CAUSES

_WORKER = struct("host text, rank number32", at=pa.list_(pa.int64()))


def test_a_text_declares_columns() -> None:
    wanted = (
        Column("host", "machine on which the rank ran; null if not logged", pa.string(), nullable=True),
        Column("lost_s", "goes on below", pa.float64(), "s", nullable=True, minimum=0, maximum=0.5),
        Column("cause", "one of them: see there", pa.string(), allowed=CAUSES),
        Column("ops", "how many", pa.int64(), "count", minimum=0),
        Column("sizes", "of files, by name", pa.map_(pa.string(), pa.int64()), "B", nullable=True),
        Column("stages", "in order", pa.list_(pa.int32())),
        Column("workers", "of its own type", _WORKER),
        Column("mode", "of its own values", pa.string(), allowed=("a", "b")),
    )
    found = declared(
        """
        host
        lost_s (seconds? >= 0 <= 0.5): goes on
            below
        cause (text of CAUSES): one of them: see there
        ops (count): how many
        sizes (text -> integer? [B]): of files, by name
        stages (number32[]): in order
        workers (worker): of its own type
        mode (text of MODES): of its own values
        """,
        own={"worker": _WORKER, "MODES": ("a", "b")},
    )
    assert found == wanted


@pytest.mark.parametrize(
    "text",
    [
        "hosst",
        "host, unknown",
        "lost_s (secs): no such kind",
        "cause (text of CAUSE): no such values",
        "a (text) b",
    ],
)
def test_what_declares_nothing_is_an_error(text: str) -> None:
    with pytest.raises(SchemaError, match=text.split(" ", maxsplit=1)[0].rstrip(",")):
        declared(text)


def test_a_placeholder_that_was_not_filled_in_is_an_error() -> None:
    with pytest.raises(SchemaError):
        declared("steps (count): at most {MOST}")


def test_a_text_declares_rules() -> None:
    found = rules("""
        -- no step
        -- before the last
        in_order: first <= last
            AND last > 0
        -- names are short
        short (warns): length(name) < 9
        """)
    assert found == (
        Expectation("in_order", "first <= last AND last > 0", "no step before the last"),
        Expectation("short", "length(name) < 9", "names are short", "warns"),
    )


@pytest.mark.parametrize("text", ["in_order: first <= last", "-- a meaning alone", "-- both\nno condition"])
def test_a_rule_needs_its_meaning_and_its_condition(text: str) -> None:
    with pytest.raises(SchemaError):
        rules(text)


def test_every_declared_symbol_is_read() -> None:
    assert len(SYMBOLS) == symbols._DECLARED.count("\n    = ")
