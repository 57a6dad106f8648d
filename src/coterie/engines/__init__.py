"""Engines: they decide from the records of a run what happens next."""
