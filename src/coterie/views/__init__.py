"""Folds of records: what a run looks like."""
