"""Patterns: types, configurations, slots, and the rules for combining them."""
