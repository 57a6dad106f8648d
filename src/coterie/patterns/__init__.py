"""Patterns for programs: the reference's API and its data model."""
