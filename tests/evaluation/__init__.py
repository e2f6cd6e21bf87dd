"""How good diagnosis and clocks are: jobs and injected faults whose truth is known, judged."""
