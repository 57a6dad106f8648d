"""Programs of npm that only tests of the page use: `axe-core` and `typescript`.

`PAGE_TOOLS` names a folder in which npm installed them; `.ci/run` does that. Without it such tests are skipped.
"""

import os
from pathlib import Path

import pytest


def tool(path: str) -> Path:
    """The file of a tool, as `axe-core/axe.min.js`; skips the test without it."""
    if not (folder := os.environ.get("PAGE_TOOLS")):
        pytest.skip("needs PAGE_TOOLS: a folder in which `npm install axe-core typescript` was run")
    file = Path(folder, "node_modules", path)
    if not file.exists():
        pytest.skip(f"PAGE_TOOLS has no {path}")
    return file
