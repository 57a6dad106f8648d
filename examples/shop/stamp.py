"""Stamp a letter: a program that knows nothing of agents."""

import sys

print(f"[sent] {sys.stdin.read().strip().splitlines()[-1]}")
