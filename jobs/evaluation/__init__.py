"""How good the diagnosis is: generated jobs, injected faults and published traces, judged by known truth."""
