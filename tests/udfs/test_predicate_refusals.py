"""What is said of a predicate that is not understood, always on one line."""

import pytest

from schemas.vocabulary import OP_TYPES
from udfs.errors import PredicateError
from udfs.op_predicate import parse_predicate

NO_GROUP = "there is no op type 'forward-pp-comm'"
MANY_OP_TYPES = f"there are {', '.join(OP_TYPES)}"


@pytest.mark.parametrize(
    ("predicate", "said"),
    [
        ("", "the predicate is empty"),
        (" \n", "the predicate is empty"),
        ("stage = 3", "there is no column stage: did you mean pp_rank?"),
        ("worker = 3", "there is no column worker: did you mean dp_rank and pp_rank together?"),
        ("pp_rnk = 3", "there is no column pp_rnk: did you mean pp_rank?"),
        ("zzz = 3", "there is no column zzz"),
        ("ops.step = 3", "there is no column ops.step: did you mean step?"),
        (
            "op_type = 'forward-compte'",
            "there is no op type 'forward-compte': did you mean 'forward-compute'?",
        ),
        ("op_type IN ('gc', 'optimiser')", "there is no op type 'optimiser': did you mean 'optimizer'?"),
        ("op_type <> 'zzz'", f"there is no op type 'zzz': {MANY_OP_TYPES}"),
        (
            "op_type = 'forward-pp-comm'",
            f"{NO_GROUP}: did you mean op_type IN ('forward-send', 'forward-recv')?",
        ),
        ("op_type = gc", "there is no column gc: did you mean 'gc', in quotes?"),
        ("op_type = forward-compute", "not understood: forward - compute; did you mean 'forward-compute'"),
        ("pp_rank = '3'", "pp_rank = '3': pp_rank is a number, '3' is not"),
        ("host BETWEEN 1 AND 2", "host BETWEEN 1 AND 2: host is text, 1 is not"),
        ("host IN ('a', 1)", "host IN ('a', 1): host is text, 1 is not"),
        ("'a' = 1", "'a' = 1 compares text with a number"),
        ("host = op_type", "host = op_type: text is compared with a 'text', not with a column"),
        ("step LIKE '3%'", "step LIKE '3%': step is a number, LIKE asks of text"),
        ("host LIKE 3", "host LIKE 3: LIKE wants a 'text' without backslashes"),
        ("host LIKE 'a\\_'", "host LIKE 'a\\\\_': LIKE wants a 'text' without backslashes"),
        ("pp_rank", "pp_rank alone is no condition"),
        ("3", "not understood: 3"),
        ("NOT (step = 1 OR dp_rank)", "understood step = 1; dp_rank alone is no condition"),
        ("ABS(step) = 3 AND rank = 2", "not understood: ABS(step) in ABS(step) = 3"),
        ("rank = 2 AND ABS(step) > 3", "understood rank = 2; not understood: ABS(step) in ABS(step) > 3"),
        ("microbatch % 2 = 0", "not understood: microbatch % 2 in microbatch % 2 = 0"),
        ("1 < step < 3", "not understood: 1 < step in 1 < step < 3"),
        ("pp_rank = 1 = TRUE", "not understood: pp_rank = 1 in pp_rank = 1 = TRUE"),
        ("step <=> 3", "not understood: step IS NOT DISTINCT FROM 3"),
        ("step IS TRUE", "not understood: step IS TRUE"),
        ("(step = 1) IS NULL", "not understood: (step = 1) in (step = 1) IS NULL"),
        ("step IN (SELECT 1)", "not understood: step IN (SELECT 1)"),
        ("step IN ()", "not understood: step IN ()"),
        ("step BETWEEN SYMMETRIC 2 AND 1", "not understood: (step BETWEEN 2 AND 1 OR"),
        ("host ILIKE 'a'", "not understood: host ILIKE 'a'"),
        ("host LIKE ANY ('a')", "not understood: ANY('a') in host LIKE ANY('a')"),
        ("host LIKE 'a!_' ESCAPE '!'", "not understood: host LIKE 'a!_' ESCAPE '!'"),
        ("step = 5L", "not understood: CAST(5 AS BIGINT) in step = CAST(5 AS BIGINT)"),
        ("step = 1; step = 2", "not understood: step = 1; step = 2"),
        ("SELECT 1", "not understood: SELECT"),
        ("step = 3)", "understood step = 3; not understood: )"),
        ("step = 3 XOR TRUE", "understood step = 3; not understood: XOR"),
        ("step = 3 AND", "step = 3 AND is not complete"),
        ("(step = 3", "(step = 3 is not complete"),
        ("host = 'a", "not understood: host = 'a (is there a quote that is not closed?)"),
        ("(" * 3_000 + "TRUE" + ")" * 3_000, "too deeply nested"),
    ],
)
def test_what_is_not_understood_is_told_in_one_line(predicate: str, said: str) -> None:
    with pytest.raises(PredicateError) as refused:
        parse_predicate(predicate)
    (line,) = str(refused.value).splitlines()
    assert line.startswith(said)
    assert (
        "there are the columns op_type, host, pp_rank, dp_rank, step, microbatch, model_chunk, rank" in line
    )
    assert (
        "the operators AND, OR, NOT, =, !=, <>, <, <=, >, >=, IN, BETWEEN, IS NULL, LIKE, parentheses" in line
    )


def test_only_the_last_conditions_that_were_understood_are_told() -> None:
    with pytest.raises(
        PredicateError, match=r"^understood step = 2, step = 3, step = 4; there is no column x;"
    ):
        parse_predicate(" AND ".join([*(f"step = {number}" for number in range(5)), "x = 1"]))
