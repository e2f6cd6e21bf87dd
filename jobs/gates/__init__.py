"""Quality gates: checks that rows must pass before they become visible, and pages about them.

Expectation : a condition on each row of one table, or its key or schema; declared with the table.
Rule        : a query across rows or tables, which finds the rows that break the rule.
Check       : the outcome of an expectation or a rule: how many rows break it.
Audit       : checks one table against its expectations.
"""
