"""Coding agents: programs that work on files by themselves and speak a protocol on their standard input and output.

`wire.py` is such a program, `attempt.py` what all of them have in common, `permissions.py` what decides whether a tool
may be used; there is one module per protocol.
"""
