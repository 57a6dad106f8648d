"""Run the program of an attempt in a sandbox: it can write the files that it works on, but cannot read secrets.

`policy.py` decides what it may do; `bwrap.py` and `landlock.py` enforce this; `choice.py` selects the one that works.
"""
