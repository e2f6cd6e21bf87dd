"""The report as HTML pages, made from rows without Spark or a clock; the same rows give the same bytes."""
