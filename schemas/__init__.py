"""The contract: tables, views and the words of the warehouse."""
