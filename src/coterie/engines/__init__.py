"""Deciders: what happened, therefore what next."""
