"""One unit simulated: from its rows to the rows of the result tables."""
