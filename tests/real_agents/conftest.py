"""Real coding agents at work against a local server that speaks the Anthropic API.

`COTERIE_REAL_AGENTS` names a folder in which npm installed them; `.ci/run` does that. Without it, or without the
libraries, every test here is skipped with the reason.
"""

import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_models import FakeModels
from scripted_provider import Provider, RealAgents

LIBRARIES = ("acp", "claude_agent_sdk")
PROGRAMS = ("pi", "claude-agent-acp")


@pytest.fixture(scope="session")
def programs() -> dict[str, Path]:
    """The installed programs, by name."""
    folder = os.environ.get("COTERIE_REAL_AGENTS", "")
    if not folder:
        pytest.skip("real coding agents: COTERIE_REAL_AGENTS names no folder in which they are installed")
    if lacks := [name for name in LIBRARIES if importlib.util.find_spec(name) is None]:
        pytest.skip(f"real coding agents: not installed: {', '.join(lacks)}")
    if shutil.which("node") is None:
        pytest.skip("real coding agents: node is not on the PATH")
    found = {name: Path(folder) / "node_modules" / ".bin" / name for name in PROGRAMS}
    if lacks := [name for name, path in found.items() if not path.exists()]:
        pytest.skip(f"real coding agents: not installed in {folder}: {', '.join(lacks)}")
    return found


@pytest.fixture
def provider() -> Iterator[Provider]:
    """The script of the local server."""
    provider = Provider()
    with FakeModels(choose=provider) as models:
        provider.models = models
        yield provider


@pytest.fixture
def real(programs: dict[str, Path], provider: Provider, tmp_path: Path) -> RealAgents:
    """The agents, with a home in which pi knows the local server."""
    home = tmp_path / "home"
    pi = home / ".pi" / "agent"
    pi.mkdir(parents=True)
    (pi / "models.json").write_text(provider.models_of_pi())
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("ANTHROPIC_", "CLAUDE"))},
        **provider.models.environment,
        "HOME": str(home),
        "PI_OFFLINE": "1",
    }
    return RealAgents(programs=programs, home=home, environment=environment)
