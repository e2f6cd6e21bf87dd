"""Pure transforms of DataFrames into DataFrames, without files, session or clock."""
