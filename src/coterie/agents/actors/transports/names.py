"""Encode names of systems and agents for topics and subjects."""

import re


def plain_name(name: str) -> str:
    """Encode *name* with only letters, digits, `_` and `-`; different names stay different."""
    return re.sub(r"[^A-Za-z0-9_-]", lambda found: f"={ord(found.group()):x}=", name)
