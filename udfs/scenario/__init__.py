"""Which ops a custom scenario changes: columns that a predicate may ask of, and its answer."""
