"""Custom scenarios: the columns that a predicate over ops may use, and its evaluation."""
