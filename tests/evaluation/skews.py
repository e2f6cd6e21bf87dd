"""Wrong clocks of hosts, by an offset, a drift or a jump, which change only the recorded times of a job."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Final

import numpy as np

from jobs.synthetic.conditions import Conditions, Place
from jobs.synthetic.mechanisms.mechanism import Culprits, Mechanism

PPM: Final = 1e-6


@dataclass(frozen=True)
class HostClock:
    """The clock of one host, with an offset, a drift or a jump.

    offset_s  : how far the clock is ahead at the first recorded step [s]
    drift_ppm : how fast the clock gains [us/s]
    jump_s    : how far the clock is set forward, before recorded step `jump_step` [s]
    """

    host: str
    offset_s: float = 0.0
    drift_ppm: float = 0.0
    jump_s: float = 0.0
    jump_step: int = 0


@dataclass(frozen=True)
class HostClocks(Mechanism):
    """Wrong clocks of some hosts; the clocks of all other hosts are right."""

    clocks: tuple[HostClock, ...]

    cause: ClassVar[str | None] = None

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Set the hosts' clocks; nothing is drawn at random."""
        del rng
        hosts = np.array(conditions.place.hosts_of_cells())
        step = np.arange(conditions.place.shape.steps)
        for clock in self.clocks:
            cells = hosts == clock.host
            conditions.clock_s[cells] += clock.offset_s
            conditions.clock_rate[cells] += clock.drift_ppm * PPM
            jump_s = np.where(step >= clock.jump_step, clock.jump_s, 0.0)
            conditions.clock_jump_s += cells[:, None, :] * jump_s[None, :, None]

    def parameters(self) -> dict[str, Any]:
        """Return the clocks as records."""
        return {"clocks": [asdict(clock) for clock in self.clocks]}

    def culprits(self, place: Place) -> Culprits:
        """Return the hosts with wrong clocks."""
        del place
        return {"hosts": [clock.host for clock in self.clocks]}


def _all_off(rng: np.random.Generator, hosts: Sequence[str], most_s: float) -> list[HostClock]:
    return [HostClock(host, float(rng.uniform(-most_s, most_s))) for host in hosts]


def _one(rng: np.random.Generator, hosts: Sequence[str]) -> str:
    return str(rng.choice(list(hosts)))


Drawing = Callable[[np.random.Generator, Sequence[str], int], list[HostClock]]

SKEWS: Final[dict[str, Drawing]] = {
    "all within 5 ms": lambda rng, hosts, _: _all_off(rng, hosts, 5e-3),
    "one 50 ms ahead": lambda rng, hosts, _: [HostClock(_one(rng, hosts), 50e-3)],
    "all within 50 ms": lambda rng, hosts, _: _all_off(rng, hosts, 50e-3),
    "drift to 200 ppm": lambda rng, hosts, _: [
        HostClock(host, drift_ppm=float(rng.uniform(-200, 200))) for host in hosts
    ],
    "set back in mid-job": lambda rng, hosts, steps: [
        HostClock(_one(rng, hosts), jump_s=-50e-3, jump_step=int(rng.integers(1, max(steps, 2))))
    ],
    "an hour ahead": lambda rng, hosts, _: [HostClock(_one(rng, hosts), 3600.0)],
    "all of it": lambda rng, hosts, steps: [
        HostClock(
            host,
            float(rng.uniform(-20e-3, 20e-3)),
            float(rng.uniform(-100, 100)),
            float(rng.uniform(-20e-3, 20e-3)) * (rng.random() < 0.3),
            int(rng.integers(1, max(steps, 2))),
        )
        for host in hosts
    ],
}
"""By name of a clock error, a function that draws wrong clocks from a generator, hosts and number of
steps."""


def draw_clocks(rng: np.random.Generator, hosts: Sequence[str], steps: int, skew: str = "") -> HostClocks:
    """Draw wrong clocks for a job's hosts; `skew` is a name in SKEWS, or empty if the name is drawn too."""
    chosen = skew or str(rng.choice(list(SKEWS)))
    return HostClocks(tuple(SKEWS[chosen](rng, hosts, steps)))
