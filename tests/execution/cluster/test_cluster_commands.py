"""`coterie submit` and `coterie serve`, as processes, against a Temporal server."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest
from cluster_stage import WITHIN, Server, coterie, server, serving
from until import until

from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.records import AttemptInterrupted, TurnFinished

TEAM = """
topology pair : [pipeline] {
  agent writer { prompt { Write } extensions { coterie { command: ["sh", "-c", "cat >/dev/null; echo a draft"] } } }
  agent judge { prompt { Judge } outputs { verdict: yes | no } extensions { coterie {
    command: ["sh", "-c", "cat >/dev/null; echo '```json'; echo '{\\"verdict\\": \\"yes\\"}'; echo '```'"] } } }
  flow { writer -> judge }
}
"""


@pytest.mark.slow
def test_a_team_is_submitted_waited_for_and_exported(temporal_server: Server, tmp_path: Path) -> None:
    (tmp_path / "pair.at").write_text(TEAM)
    (tmp_path / ".env").write_text("KEY=hush")
    cluster = f"{temporal_server.url}?export={tmp_path / 'export'}"
    with serving(tmp_path, cluster) as node:
        done = coterie(
            "submit", "pair.at", "a note", "--id", "note-1", "--wait", "--json", cwd=tmp_path, cluster=cluster
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert json.loads(done.stdout)["outcome"] == "completed"
        assert "not sent, because it looks secret: .env (--include .env sends it)" in done.stderr
        again = coterie("submit", "pair.at", "a note", "--id", "note-1", cwd=tmp_path, cluster=cluster)
        assert (again.returncode, again.stdout) == (0, "note-1\n")
        assert "nothing was started" in again.stderr
        other = coterie("submit", "pair.at", "another", "--id", "note-1", cwd=tmp_path, cluster=cluster)
        assert (other.returncode, "with another input" in other.stderr) == (2, True)
        elsewhere = coterie(
            *("submit", "pair.at", "a note", "--id", "note-1", "--wait"),
            cwd=tmp_path,
            cluster=f"{temporal_server.url}?export={tmp_path / 'another'}",
        )
        assert (elsewhere.returncode, "journal is in another export" in elsewhere.stderr) == (2, True)
        node.send_signal(signal.SIGTERM)
        assert node.wait(180) == 0
    records = list(JsonlStore(tmp_path / "export").read("note-1"))
    assert [one.turn for one in records if isinstance(one, TurnFinished)] == ["writer#1", "judge#1"]


@pytest.mark.slow
def test_a_run_that_no_node_has_begun_is_known_by_its_history(tmp_path: Path) -> None:
    """The same submission is no second run; another input is refused, and another team that has another export."""
    team = TEAM.replace("{ Write }", "{ Write " + "at length " * 200 + "}")
    (tmp_path / "pair.at").write_text(team)

    def submit(text: str, export: str = "export") -> tuple[int, str]:
        words = ("submit", "pair.at", text, "--id", "unserved", "--no-files")
        done = coterie(*words, cwd=tmp_path, cluster=f"{alone.url}?export={tmp_path / export}")
        return done.returncode, done.stderr

    with server(tmp_path) as alone:  # no node of another test takes it up
        assert "waits for one" in submit("a note")[1]
        status, said = submit("a note")
        assert (status, "nothing was started" in said) == (0, True)
        status, said = submit("another")
        assert (status, "with another input" in said) == (2, True)
        (tmp_path / "pair.at").write_text(team.replace("Write", "Paint"))
        status, said = submit("a note", "another")
        assert (status, "journal is in another export" in said) == (2, True)


SPY = """#!/bin/sh
cat > /dev/null
echo "environments: $(cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c hush-hush)"
echo "mine: $(env | grep -Ec '^(COTERIE_CLUSTER|COTERIE_NODE_SECRETS|PG|TEMPORAL_)')"
"""


@pytest.mark.slow
def test_an_agent_does_not_get_what_its_node_reaches_the_cluster_with(temporal_server: Server, tmp_path: Path) -> None:
    """Neither in its environment nor in that of any process; an empty API key is none."""
    (tmp_path / "spy.sh").write_text(SPY)
    spy = (
        'topology pair : [pipeline] { agent spy { extensions { coterie { command: ["sh", "spy.sh"] } } } flow { spy } }'
    )
    (tmp_path / "spy.at").write_text(spy)
    cluster = f"{temporal_server.url}?export={tmp_path / 'export'}"
    secrets = {"PGPASSWORD": "hush-hush", "PGPASSFILE": "/hush-hush", "TEMPORAL_API_KEY": ""}
    secrets["TEMPORAL_GRPC_META_AUTHORIZATION"] = "Bearer hush-hush"
    with serving(tmp_path, cluster, **secrets) as node:
        done = coterie("submit", "spy.at", "go", "--id", "spy-1", "--wait", cwd=tmp_path, cluster=cluster)
        assert done.stdout.splitlines()[:2] == ["environments: 0", "mine: 0"], done.stdout + done.stderr
        if sys.platform == "linux":  # other processes of its user cannot read its memory
            assert os.stat(f"/proc/{node.pid}/environ").st_uid == 0


@pytest.mark.slow
def test_a_node_that_cannot_write_the_export_does_not_serve(temporal_server: Server, tmp_path: Path) -> None:
    (tmp_path / "export").write_text("a file")
    refused = coterie("serve", cwd=tmp_path, cluster=f"{temporal_server.url}?export={tmp_path / 'export'}")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.splitlines()[-1].startswith(f"coterie: {tmp_path / 'export'}")


@pytest.mark.long
def test_a_node_says_in_one_line_that_its_server_is_away(tmp_path: Path) -> None:
    cluster = f"{{}}?export={tmp_path / 'export'}"

    def says(line: str) -> None:
        until(lambda: line in (tmp_path / "node.log").read_text(), WITHIN)

    with server(tmp_path) as one, serving(tmp_path, cluster.format(one.url)):
        says("serving default")
        one.kill()
        says("the server does not answer; this node waits for it")
        one.start()
        says("the server answers again")
    lines = (tmp_path / "node.log").read_text().splitlines()
    assert len([line for line in lines if not line.startswith("made a key of the cluster")]) == 3


@pytest.mark.long
def test_a_run_that_no_node_can_perform_is_submitted_with_a_warning(temporal_server: Server, tmp_path: Path) -> None:
    """It waits; an interrupt of a turn that no node has begun is no loss of a node."""
    (tmp_path / "pair.at").write_text(TEAM.replace('command: ["sh"', 'queue: nowhere command: ["sh"', 1))
    cluster = f"{temporal_server.url}?export={tmp_path / 'export'}"
    with serving(tmp_path, cluster, "--queue", "elsewhere"):
        done = coterie("submit", "pair.at", "a note", "--id", "stuck-1", "--no-files", cwd=tmp_path, cluster=cluster)
        assert (done.returncode, done.stdout) == (0, "stuck-1\n")
        assert "serves the queue 'nowhere' now: run stuck-1 waits" in done.stderr
        (tmp_path / "paid.at").write_text("topology paid : [pipeline] { agent a { model: tiny } flow { a } }")
        words = ("paid.at", "a note", "-b", "claude-sdk", "--no-files")
        paid = coterie("submit", *words, cwd=tmp_path, cluster=cluster).stderr
        assert "the sandbox of each node; all tools allowed\n  works on the nodes of the cluster, without files" in paid
        until(lambda: coterie("inspect", "stuck-1", cwd=tmp_path, cluster=cluster).returncode == 0, WITHIN)
        assert "accepted" in coterie("control", "interrupt", "stuck-1", cwd=tmp_path, cluster=cluster).stdout
        store = JsonlStore(tmp_path / "export")
        until(
            lambda: store.has("stuck-1") and any(isinstance(one, AttemptInterrupted) for one in store.read("stuck-1"))
        )


def test_what_cannot_run_there_is_refused_before_anything_starts(temporal_server: Server, tmp_path: Path) -> None:
    (tmp_path / "topology.yaml").write_text(
        "supervision:\n  name: root\n  children:\n    - type: dynamic_supervisor\n      name: pool\n"
    )
    cluster = f"{temporal_server.url}?export={tmp_path / 'export'}"
    done = coterie("submit", "topology.yaml", cwd=tmp_path, cluster=cluster)
    assert done.returncode == 2
    assert "supervised system" in done.stderr
    (tmp_path / "silent.at").write_text("topology silent : [pipeline] { agent a { model: tiny } flow { a } }")
    done = coterie("submit", "silent.at", "x", cwd=tmp_path, cluster=cluster)
    assert (done.returncode, "no backend configured for a" in done.stderr) == (1, True)
    secret = TEAM.replace("extensions { coterie {", 'extensions { coterie { env { API_KEY: "sk-12345678" }', 1)
    (tmp_path / "secret.at").write_text(secret)
    done = coterie("submit", "secret.at", "x", cwd=tmp_path, cluster=cluster)
    assert done.returncode == 2
    assert "${NAME}" in done.stderr
    assert "sk-12345678" not in done.stderr
    (tmp_path / "pair.at").write_text(TEAM)
    done = coterie("submit", "pair.at", "x", "--include", "nowhere.env", cwd=tmp_path, cluster=cluster)
    assert (done.returncode, "--include nowhere.env: there is no such file" in done.stderr) == (2, True)
