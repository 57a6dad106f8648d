"""Coterie runs teams of AI agents."""
