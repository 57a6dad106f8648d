"""Run the program of an attempt so that it can write what it works on, and cannot read secrets.

`policy.py` says what it may do; `bwrap.py` and `landlock.py` each make it hold; `choice.py` picks the one that works.
"""
