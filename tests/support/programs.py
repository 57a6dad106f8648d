"""Programs of this Python, whose path may have a space: a kernel takes none behind `#!`."""

import shlex
import sys

PYTHON = shlex.quote(sys.executable)
"""This Python as a word of a shell."""


def program(source: str, *options: str) -> str:
    """The text of a program with *source*, which this Python runs with *options*."""
    words = [sys.executable, *options]
    if sys.executable == PYTHON:
        return f"#!{' '.join(words)}\n{source}"
    return f"#!/bin/sh\n'''exec' {shlex.join(words)} \"$0\" \"$@\"\n' '''\n{source}"
