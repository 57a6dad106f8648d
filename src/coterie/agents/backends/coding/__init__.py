"""Coding agents: programs that work on files by themselves and speak a protocol on standard input and output.

`wire.py` runs such a program, `attempt.py` is the common base of attempts, and `permissions.py` decides whether a tool
may be used; there is one module per protocol.
"""
