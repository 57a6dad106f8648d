"""The marker `extras`: a test, or a case of one, that needs a library which only an extra installs.

A pytest plugin. `@pytest.mark.extras("acp")` skips the test, with the reason, where the library is missing;
`pytest -m extras` runs what these libraries add.
"""

from importlib.util import find_spec
from typing import Any

import pytest

from coterie.team.options.backends import CODING

LIBRARIES = {"acp": "acp", "claude": "claude_agent_sdk", "http3": "aioquic"}
"""The library of each extra that is not installed for development."""


def pytest_itemcollected(item: pytest.Item) -> None:
    for extra in [name for marker in item.iter_markers("extras") for name in marker.args]:
        reason = f"the library {LIBRARIES[extra]} is not installed: pip install 'coterie[{extra}]'"
        item.add_marker(pytest.mark.skipif(find_spec(LIBRARIES[extra]) is None, reason=reason))


def coding_agents() -> list[Any]:
    """The backends of coding agents as parameters, each marked with its extra."""
    return [pytest.param(kind, marks=[pytest.mark.extras(one.extra)] * bool(one.extra)) for kind, one in CODING.items()]
