"""The data contract: declared tables, views and the vocabulary of the warehouse."""
