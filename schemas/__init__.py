"""The data contract: declarations of tables, SQL of views and queries, and names used in the warehouse."""
