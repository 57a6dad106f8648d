"""The export's database is killed while runs go on."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import postgres_server
import pytest
from cluster_stage import WITHIN, Server, coterie, serving
from until import until

TEAM = """
topology long : [pipeline] {{
{agents}
  flow {{ {flow} }}
}}
"""
AGENT = """
import os, sys, time
with open("started.log", "a") as log:
    log.write(os.environ["COTERIE_TURN"] + "\\n")
time.sleep(0.3)
while os.environ["COTERIE_TURN"] > "a2" and not os.path.exists("watched"):
    time.sleep(0.02)
print(os.environ["COTERIE_TURN"] * 300, len(sys.stdin.read()) > 1000)
"""


@pytest.mark.long
def test_runs_outlive_a_database_that_is_killed(temporal_server: Server, tmp_path: Path) -> None:
    """Nothing finished is repeated or lost, who watches goes on, and commands wait, then say what does not answer."""
    if why := postgres_server.missing():
        pytest.skip(f"needs PostgreSQL: {why}")
    names = [f"a{n}" for n in range(8)]
    program = f'command: ["{sys.executable}", "{tmp_path}/agent.py"]'
    (tmp_path / "agent.py").write_text(AGENT)
    agents = "\n".join(f"  agent {name} {{ extensions {{ coterie {{ {program} }} }} }}" for name in names)
    (tmp_path / "long.at").write_text(TEAM.format(agents=agents, flow=" -> ".join(names)))

    with postgres_server.server() as server:
        folder = Path(server.partition("?host=")[2])
        cluster = f"{temporal_server.url}?export={server.replace('+asyncpg', '').format('postgres')}"
        with serving(tmp_path, cluster):
            begun = coterie("submit", "long.at", "go", "--id", "l1", "--no-files", cwd=tmp_path, cluster=cluster)
            assert begun.returncode == 0, begun.stderr
            until(lambda: coterie("inspect", "l1", cwd=tmp_path, cluster=cluster).returncode == 0, WITHIN)
            shown, log = tmp_path / "shown", tmp_path / "started.log"
            with shown.open("w") as out:
                watching = subprocess.Popen(
                    [sys.executable, "-m", "coterie", "watch", "l1", "--json", "--cluster", cluster],
                    cwd=tmp_path,
                    stdout=out,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            until(lambda: shown.read_text() and log.exists() and len(log.read_text().split()) >= 3, WITHIN)
            (tmp_path / "watched").touch()
            postgres_server.kill(folder)
            began = time.monotonic()
            away = coterie("inspect", "l1", cwd=tmp_path, cluster=cluster)
            assert (away.returncode, time.monotonic() - began > 4) == (1, True)
            assert re.search(r"postgresql:///postgres: .", away.stderr), away.stderr
            postgres_server.start(folder)
            _, said = watching.communicate(timeout=WITHIN)
            lines = shown.read_text().splitlines()
            assert watching.returncode == 0, [*lines[-3:], said]
            seen = [json.loads(line)["record"]["seq"] for line in lines]
            assert seen == list(range(1, len(seen) + 1))
            assert json.loads(lines[-1])["record"]["outcome"] == "completed"
            assert "agrees" in coterie("replay", "l1", cwd=tmp_path, cluster=cluster).stdout
            assert log.read_text().split() == [f"{name}#1" for name in names]
