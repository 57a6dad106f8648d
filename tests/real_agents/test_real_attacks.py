"""Real coding agents play the attacks on the sandbox that they work in."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import sandbox_attacks
from programs import PYTHON
from repositories import repository
from scripted_provider import RealAgents
from test_real_loop import alone, every_kind, start

from coterie.agents.backends.sandbox import choice

pytestmark = [pytest.mark.real_agents, pytest.mark.once]
ATTACKS = Path(sandbox_attacks.__file__)


@every_kind
@pytest.mark.skipif(choice.working() is None, reason="no sandbox works here")
def test_no_attack_of_a_real_agent_succeeds(real: RealAgents, tmp_path: Path, kind: str) -> None:
    """Those on what the agent itself must reach, which its state and its network are, are not among them."""
    folder = tmp_path / "project"
    alone(folder, real, kind, f"DO bash: sh {folder}/attack.sh", "backend.sandbox = 'required'\n")
    shutil.copy(ATTACKS, folder / "attacks.py")
    play = f'{PYTHON} -IS attacks.py "$(cat settings.json)"'
    (folder / "attack.sh").write_text(f"cd {folder} && {play} > found.json\n")
    with subprocess.Popen(["sleep", "600"], cwd=tmp_path, env={"SECRET": "SECRET"}) as victim:
        settings = {
            "home": str(real.home),
            "cwd": str(folder),
            "project": str(repository(tmp_path / "other")),
            "owner": victim.pid,
            "prefix": sys.prefix,
            "socket": str(real.home / ".docker/run/docker.sock"),
            "metadata": True,
        }
        (folder / "settings.json").write_text(json.dumps(settings))
        try:
            loop = start(folder, real)
            _, err = loop.communicate(timeout=300)
            assert loop.returncode == 0, err
            assert victim.poll() is None
        finally:
            victim.kill()

    found = json.loads((folder / "found.json").read_text())
    assert found["succeeded"] == []
    assert found["played"] > 100
