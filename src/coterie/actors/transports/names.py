"""Names of systems and agents as parts of topics and subjects."""

import re


def plain_name(name: str) -> str:
    """*name* with letters, digits, `_` and `-` only; different names stay different."""
    return re.sub(r"[^A-Za-z0-9_-]", lambda found: f"={ord(found.group()):x}=", name)
