"""Clock offsets are computed from differences between pairs of clocks, of which some are wrong or missing."""

import numpy as np
import pytest

from udfs.kernel.clocks import joined
from udfs.kernel.clocks.joined import agreed, join
from udfs.kernel.clocks.ties import Ties

STEPS = 12
TIME_S = np.arange(0.0, STEPS)
CLOCKS_S = np.array([0.0, 0.01, -0.02, 0.03])


def ties(*pairs: tuple[int, int], noise_s: float = 1e-5, off_s: dict[int, float] | None = None) -> Ties:
    """Return differences between pairs of clocks; numbers 4 and 5 are collectives, whose times are true."""
    true_s = np.concatenate([CLOCKS_S, [0.0, 0.0]])
    one, other = np.array(pairs).T
    apart_s = (true_s[other] - true_s[one])[:, None] + noise_s * np.random.default_rng(1).standard_normal(
        (len(pairs), STEPS)
    )
    for tie, by_s in (off_s or {}).items():
        apart_s[tie] += by_s
    return Ties(one, other, np.zeros(len(pairs), dtype=np.int64), apart_s, np.zeros(len(pairs)))


def test_clocks_along_a_pipeline() -> None:
    """Clocks at the ends of a chain are compared through the differences between neighbours."""
    found = join(ties((0, 1), (1, 2), (2, 3)), 4, TIME_S)
    assert found.ahead_s.mean(axis=1) == pytest.approx(CLOCKS_S - CLOCKS_S.mean(), abs=1e-5)
    assert found.part.tolist() == [0, 0, 0, 0]
    assert 1e-6 < found.noise_s[0] < 1e-5


def test_members_of_a_collective_meet_at_its_true_time() -> None:
    found = join(ties((4, 0), (4, 1), (4, 2), (4, 3)), 4, TIME_S)
    assert found.ahead_s.mean(axis=1) == pytest.approx(CLOCKS_S - CLOCKS_S.mean(), abs=1e-5)


def test_a_tie_that_the_others_contradict_is_doubted() -> None:
    """A difference that contradicts all others gets little weight in the estimated offsets."""
    pairs = ((0, 1), (1, 2), (2, 3), *((hub, clock) for hub in (4, 5) for clock in range(4)))
    found = join(ties(*pairs, off_s={1: 0.005}), 4, TIME_S)
    assert found.ahead_s.mean(axis=1) == pytest.approx(CLOCKS_S - CLOCKS_S.mean(), abs=5e-5)


def test_parts_that_nothing_joins() -> None:
    found = join(ties((0, 1), (2, 3)), 4, TIME_S)
    assert found.part.tolist() == [0, 0, 2, 2]
    assert found.ahead_s.mean(axis=1) == pytest.approx([-0.005, 0.005, -0.025, 0.025], abs=1e-5)


def test_steps_that_lack_a_tie() -> None:
    """If a difference is missing in a step, clocks are unknown there only if nothing else connects them."""
    some = ties((0, 1), (1, 2), (2, 3))
    some.apart_s[1, :4] = np.nan
    found = join(some, 4, TIME_S)
    assert np.isnan(found.ahead_s[2:, :4]).all()
    true_s = CLOCKS_S - CLOCKS_S.mean()
    assert found.ahead_s[:2] == pytest.approx(np.repeat(true_s[:2, None], STEPS, axis=1), abs=6e-5)


@pytest.mark.parametrize("step", [0, 5, STEPS - 1])
def test_a_step_in_which_ties_disagree_shows_no_clock(step: int) -> None:
    """If the differences of one clock disagree in a step, only that clock's offset is unknown in the step."""
    some = ties((0, 1), (1, 2), (2, 3), *((4, clock) for clock in range(4)))
    some.apart_s[6, step] += 0.005
    found = join(some, 4, TIME_S)
    assert np.abs(found.ahead_s[3, step] - CLOCKS_S[3]) > 1e-3
    known_s = agreed(found, some, floor_s=1e-4)
    assert np.isnan(known_s[3, step])
    others = np.arange(STEPS) != step
    assert (known_s[:, others] == found.ahead_s[:, others]).all()


def test_a_step_in_which_all_ties_of_a_clock_agree_is_its_own() -> None:
    some = ties((0, 1), (1, 2), (2, 3), *((4, clock) for clock in range(4)))
    some.apart_s[2, 5] += 0.005
    some.apart_s[6, 5] += 0.005
    found = join(some, 4, TIME_S)
    assert (agreed(found, some, floor_s=1e-4) == found.ahead_s).all()


def test_many_clocks_are_solved_for_as_few_are(monkeypatch: pytest.MonkeyPatch) -> None:
    some = ties((0, 1), (1, 2), (2, 3), (4, 0), (4, 2), (5, 1), (5, 3))
    dense = join(some, 4, TIME_S)
    monkeypatch.setattr(joined, "DENSE", 0)
    assert join(some, 4, TIME_S).ahead_s == pytest.approx(dense.ahead_s, abs=1e-9)
