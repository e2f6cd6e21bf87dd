"""Pure transforms: DataFrames in, DataFrames out; no files, no session, no clock."""
