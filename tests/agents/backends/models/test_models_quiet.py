"""The libraries of models print nothing where a run is shown."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
TEAM = ROOT / "examples" / "model-team"


def test_every_library_has_a_handler_that_prints_nothing() -> None:
    """Without any, Python prints warnings; a program that configures logging gets those of servers, too."""
    import pydantic_ai

    import coterie.agents.backends.models.servers
    import coterie.agents.backends.models.settings  # noqa: F401

    libraries = ("anthropic", "fastmcp", "httpx2", "mcp", "openai", "pydantic_ai")
    silent = [[type(one) for one in logging.getLogger(name).handlers] == [logging.NullHandler] for name in libraries]
    assert dict(zip(libraries, silent, strict=True)) == dict.fromkeys(libraries, True)
    assert logging.getLogger("mcp").propagate
    assert not pydantic_ai.BANNER_ENABLED


@pytest.mark.slow
def test_no_banner_of_a_library_is_on_the_terminal(tmp_path: Path) -> None:
    """They print one for people at a terminal, unless they run in a test or in CI."""
    environment = {name: value for name, value in os.environ.items() if name not in ("CI", "PYTEST_VERSION")}
    leader, terminal = os.openpty()
    command = [sys.executable, "-m", "coterie", "run", str(TEAM / "team.at")]
    command += ["Version 2.0 reads its settings from settings.toml", "--cassette", str(TEAM / "cassette.jsonl")]
    with subprocess.Popen(
        command,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        cwd=tmp_path,
        env=environment | {"TERM": "xterm", "PYTHONPATH": os.pathsep.join(sys.path)},
        start_new_session=True,
    ) as program:
        os.close(terminal)
        shown = _all_of(leader)

    assert program.returncode == 0, shown
    assert "completed: 4 turns" in shown
    assert "pydantic" not in shown.lower()


@pytest.mark.slow
def test_warnings_of_the_libraries_are_not_printed() -> None:
    """A program that configures logging gets them all the same."""
    libraries = ["anthropic", "fastmcp.client", "httpx2", "mcp.client.session", "openai", "pydantic_ai"]
    program = (
        "import logging, coterie.agents.backends.models.conversation, coterie.agents.backends.models.servers\n"
        f"for name in {libraries}: logging.getLogger(name).warning('quiet')\n"
        "logging.basicConfig()\n"
        "logging.getLogger('mcp').warning('loud')\n"
        "logging.getLogger('fastmcp').warning('loud')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )

    assert (done.stdout, done.stderr) == ("", "WARNING:mcp:loud\nWARNING:fastmcp:loud\n")


def _all_of(leader: int) -> str:
    """What was written on the terminal, until its last process has gone."""
    data = b""
    while True:
        try:
            data += os.read(leader, 65536)
        except OSError:
            os.close(leader)
            return data.decode("utf-8", "replace")
