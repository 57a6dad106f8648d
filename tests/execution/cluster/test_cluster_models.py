"""Turns of models on a cluster, whose node is killed while a tool works."""

import json
from collections import Counter
from pathlib import Path

import pytest
from cluster_stage import WITHIN, Server, coterie, serving
from fake_models import FakeModels, Say
from until import until

TEAM = """
topology desk : [pipeline] {
  agent clerk {
    model: gpt-5
    prompt: "Pay."
    extensions { coterie { backend: model tools: ["tools:pay", "tools:post"] } }
  }
  flow { clerk }
}
"""
TOOLS = '''
import pathlib, time
from coterie.agents.backends import turn_attempt, turn_key

HERE = pathlib.Path(__file__).parent

def ledger(text: str) -> None:
    with open(HERE / "ledger", "a") as file:
        file.write(f"{text} {turn_key().rpartition('/')[2]} {turn_attempt()}\\n")

def pay(euros: int) -> str:
    """Pay."""
    ledger("pay")
    return "paid"

def post(text: str) -> str:
    """Post a letter, once the test lets it."""
    ledger("post")
    while not (HERE / "posts").exists():
        time.sleep(0.01)
    return "posted"
'''


@pytest.mark.slow
def test_a_model_begins_anew_after_its_node_was_killed(
    temporal_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is left of the node's folder: the model is warned, and the tools see the same key, in attempt 2."""
    (tmp_path / "desk.at").write_text(TEAM)
    (tmp_path / "tools.py").write_text(TOOLS)
    cluster = f"{temporal_server.url}?export={tmp_path / 'export'}"
    words = ("submit", "desk.at", "--id", "desk-1")

    def ledger() -> Counter[str]:
        path = tmp_path / "ledger"
        return Counter(path.read_text().splitlines() if path.exists() else [])

    calls = [Say(calls=[("pay", {"euros": 5})]), Say(calls=[("post", {"text": "a bill"})])]
    with FakeModels(*calls, *calls, Say("Done.")) as models:
        for name, value in models.environment.items():
            monkeypatch.setenv(name, value)
        with serving(tmp_path, cluster, "--queue", "none", name="drives"):
            with serving(tmp_path, cluster, "--no-drive", name="performs") as performer:
                assert coterie(*words, cwd=tmp_path, cluster=cluster).returncode == 0
                until(lambda: ledger()["post clerk#1 1"], WITHIN)
                performer.kill()
            (tmp_path / "posts").touch()
            with serving(tmp_path, cluster, "--no-drive", name="performs"):
                ended = coterie(*words, "--wait", cwd=tmp_path, cluster=cluster)

    assert (ended.returncode, ended.stdout) == (0, "Done.\n"), ended.stderr
    assert ledger() == Counter(f"{tool} clerk#1 {attempt}" for tool in ("pay", "post") for attempt in (1, 2))
    assert len(models.requests) == 5
    assert "check before repeating them" in json.dumps(models.requests[2])
