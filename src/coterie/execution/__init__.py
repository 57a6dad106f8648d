"""Runs under way: the kernel, its kinds of coordination, runs as people have them, and clusters."""
