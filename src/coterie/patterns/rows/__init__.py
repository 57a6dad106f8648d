"""Rows: the reference's SQL models, and the executions, messages and results of runs written as such.

`enums`, `configs`, `models` and `schemas` are the data model; `fold` turns a run's records into rows, `projection`
writes them while the run goes on, `tables` makes the tables. All but the enums need the extra `sql`.
"""
