"""All benchmarks: `make bench`."""

from tests.benchmarks import night, simulator

simulator.main()
print()
night.main()
