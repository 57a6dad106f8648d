"""A team's file as the page shows it, read again as it is saved; a run as one file; who may act."""

import asyncio
import base64
import gzip
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from stage import Cast, flow

from coterie.agents.backends.base import Answer, Failure
from coterie.base import file_fingerprint
from coterie.execution.runs import launch
from coterie.execution.runs.repository import LocalRuns, Runs
from coterie.history.journal.lock import RunLock
from coterie.interfaces.ui import peers, serve, single_file, team_file
from coterie.interfaces.ui.places import ServedRuns
from coterie.interfaces.ui.serve import PageOptions, PageServer
from coterie.interfaces.ui.single_file import page_of
from coterie.interfaces.ui.team_file import TeamFeed, TeamFile
from coterie.team.planning.plan import AgentPlan, Plan

TEAM = """topology review : [pipeline] {
  meta { version: "1.0.0" }
  agent writer { extensions { coterie { command: ["true"] } } }
  agent critic { outputs { verdict: yes | no } extensions { coterie { command: ["true"] } } }
  flow {
    writer -> critic
    critic -> writer [when critic.verdict == "no", max 2]
  }
}
"""


def test_a_team_has_its_picture_its_findings_and_its_proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a valid file; it is read once as long as it stays."""
    monkeypatch.setattr(file_fingerprint, "SETTLED", -(10**15))  # else one that was just saved is read again
    (file := tmp_path / "review.at").write_text(TEAM)
    found = (team := TeamFile(file)).read()

    assert (found["file"], found["name"], found["kind"], found["valid"]) == (str(file), "review", "flow", True)
    assert found["stale_since"] is None
    assert found["proof"]["worst"] == 6
    assert found["proof"]["best"] == 2
    assert found["proof"]["agents"] == {"writer": 3, "critic": 3}
    assert found["proof"]["ends"] is True
    assert [one["name"] for one in found["teams"][""]["boxes"]] == ["writer", "critic"]
    assert team.read() is found


def test_while_a_file_is_wrong_its_last_picture_stays(tmp_path: Path) -> None:
    """With the time from which it is out of date, and each finding at the nodes that it is about."""
    (file := tmp_path / "review.at").write_text(TEAM)
    picture = (team := TeamFile(file)).read()["teams"]
    file.write_text(TEAM.replace("writer -> critic", "writer -> critics"))
    wrong = team.read()

    assert (wrong["valid"], wrong["proof"], wrong["teams"], wrong["name"]) == (False, None, picture, "review")
    assert wrong["stale_since"] is not None
    unknown = next(one for one in wrong["findings"] if "critics" in one["message"])
    assert (unknown["source"], unknown["severity"]) == ("validate", "error")
    assert "critics" in unknown["nodes"]
    file.write_text(TEAM)
    assert team.read()["stale_since"] is None


@pytest.mark.parametrize(
    ("text", "kind", "nodes"),
    [
        (TEAM.replace('command: ["true"]', ""), "", ["writer", "critic"]),
        ("topology", "", []),
        (TEAM.replace("  meta", "  params { tone: string }\n  meta"), "", ["writer", "critic"]),
    ],
    ids=["without a backend", "no team", "a parameter without value"],
)
def test_a_team_that_cannot_run_is_drawn_as_far_as_it_can(
    tmp_path: Path, text: str, kind: str, nodes: list[str]
) -> None:
    """What only a run needs is an error, too."""
    (file := tmp_path / "review.at").write_text(text)
    found = TeamFile(file).read()

    assert (found["valid"], found["kind"], found["proof"]) == (False, kind, None)
    assert [one["name"] for team in found["teams"].values() for one in team["boxes"]] == nodes
    assert any(one["severity"] == "error" for one in found["findings"])


def test_findings_of_a_proof_are_at_their_nodes(tmp_path: Path) -> None:
    """A node whose part of the flow can never be entered."""
    text = TEAM.replace("agent critic", 'agent lost { extensions { coterie { command: ["true"] } } }\n  agent critic')
    text = text.replace(
        "    critic -> writer", '    critic -> lost [when critic.verdict == "maybe"]\n    critic -> writer'
    )
    (file := tmp_path / "review.at").write_text(text)
    found = TeamFile(file).read()

    assert any("lost" in one["nodes"] or "critic" in one["nodes"] for one in found["findings"]), found["findings"]


def test_a_page_gets_a_team_again_when_it_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for each change; a file that is gone is a finding."""
    monkeypatch.setattr(team_file, "EVERY", 0.001)
    (file := tmp_path / "review.at").write_text(TEAM)

    async def main() -> None:
        feed = TeamFeed(file)
        feed.watchers.add(wake := asyncio.Event())
        first, number = await feed.state("")
        assert first is not None
        assert msgspec.json.decode(first.data)["valid"] is True
        assert await feed.state(first.id) == (None, number)

        async def next_one(number: int) -> dict[str, Any]:
            while not (found := feed.after(number)):
                wake.clear()
                await asyncio.wait_for(wake.wait(), 30)
            assert [one.kind for one in found] == ["state"]
            return dict(msgspec.json.decode(found[0].data))

        file.write_text(TEAM.replace("max 2", "max 5"))
        assert (await next_one(number))["proof"]["worst"] == 12
        file.unlink()
        gone = await next_one(number + 1)
        assert (gone["valid"], gone["findings"][0]["source"]) == (False, "validate")
        again, _ = await feed.state(first.id)
        assert again is not None
        feed.close()

    asyncio.run(main())


def played(state_dir: Path, plan: Plan, cast: Cast | None = None, **how: Any) -> Runs:
    asyncio.run(launch.start(plan, {"prompt": "Go"}, state_dir=state_dir, run_id="r1", turns=cast, **how))
    return Runs(state_dir)


def data_of(page: str) -> dict[str, Any]:
    """The data of a run that is one file."""
    found = re.search(r'id="data">([^<]*)<', page)
    assert found is not None
    return dict(msgspec.json.decode(gzip.decompress(base64.b64decode(found[1]))))


def test_a_run_as_one_file_has_all_its_views(tmp_path: Path) -> None:
    """Turns, records, costs and the first failure; the page says nothing of the machine that it was made on."""
    failing = {"b": [Failure(kind="exit", reason="it broke", text="half")], "a": [Answer(text="<script>")]}
    page = page_of(played(tmp_path, flow("a -> b"), Cast(failing, seconds=0)), "r1")
    data = data_of(page)

    assert (data["key"], data["lost"]) == ("r1", "")
    assert set(data["turns"]) == {"a#1", "b#1"}
    assert len(data["records"]["r1"]) == len(data["lines"]["r1"]) == data["state"]["position"]["r1"]
    assert data["failure"]["turn"] == "b#1"
    here = data["state"]["here"]["run"]
    assert here.pop("ending")["command"] == "coterie resume r1 --retry"
    assert here == {"key": "r1", "run": "r1", "option": "", "folder": "", "owned": False, "answered": [], "heard": 0}
    assert data["state"]["costs"] == {}
    assert page.count("<script>") == 0
    nonce = re.search(r"script-src 'nonce-([^']+)'", page)
    assert nonce is not None
    assert page.count(f'nonce="{nonce[1]}"') == 2
    assert page == page_of(Runs(tmp_path), "r1")


@pytest.mark.parametrize(
    ("most", "lost", "longest"),
    [
        (1 << 30, "", 100_000),
        (8_000, "the raw records, and what is longer than 4 kB in prompts and outputs", 4_001),
        (0, "the raw records, and all of prompts and outputs but their ends", 301),
    ],
    ids=["whole", "cut", "ends"],
)
def test_a_run_that_is_too_large_for_one_file_says_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, lost: str, longest: int
) -> None:
    """The end of a long text is kept."""
    monkeypatch.setattr(single_file, "LARGEST", most)
    text = base64.b64encode(os.urandom(75_000)).decode()
    data = data_of(page_of(played(tmp_path, flow("a -> b"), Cast({"a": [Answer(text=text)]}, seconds=0)), "r1"))
    kept = data["turns"]["a#1"]["text"]

    assert data["lost"] == lost
    assert len(kept) == longest
    assert kept.removeprefix("…") == text[-longest + bool(lost) :]
    assert (data["records"] == {}) == bool(lost)


@pytest.mark.parametrize(("sandbox", "outside"), [("", "a#1 of run r1"), ("off", "a#1 of run r1"), ("required", "")])
def test_an_attempt_may_be_outside_a_sandbox_while_its_owner_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sandbox: str, outside: str
) -> None:
    """By the plan of the agent that works now."""
    found: list[str] = []
    places = ServedRuns([LocalRuns(tmp_path)])
    plan = flow("a -> b", a=AgentPlan(name="a", options={"sandbox": sandbox} if sandbox else {}))

    class Looking(Cast):
        async def start(self, request: Any, on_event: Any) -> Any:
            if request.agent.name == "a":
                found.append(await asyncio.to_thread(peers.attempt_outside, places))
            return await super().start(request, on_event)

    played(tmp_path, plan, Looking({}, seconds=0))
    assert found == [outside]
    assert peers.attempt_outside(places) == ""


def test_a_run_that_cannot_be_read_may_have_an_attempt_outside_a_sandbox(tmp_path: Path) -> None:
    """Where its owner lives; what is not known is not allowed."""
    runs, places = played(tmp_path, flow("a -> b"), Cast({}, seconds=0)), ServedRuns([LocalRuns(tmp_path)])
    with runs.file("r1").open("ab") as file:
        file.write(b"{}\n{}\n")
    assert peers.attempt_outside(places) == ""
    owner = RunLock("r1", runs.folder("r1") / "lock")
    assert peers.attempt_outside(places) == "an attempt of run r1"
    owner.release()


@pytest.mark.parametrize(
    ("terminal", "desktop", "code"),
    [(True, False, True), (True, True, False), (False, False, False)],
    ids=["terminal", "browser", "pipe"],
)
async def test_a_code_is_printed_for_a_person_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: bool, desktop: bool, code: bool
) -> None:
    """What reads the output of a pipe gets the address; so does whoever has the browser open."""

    async def start(self: PageServer) -> None:
        self.address = "http://127.0.0.1:1/"

    async def nothing(self: PageServer) -> None:
        return None

    for name, method in {"start": start, "wait": nothing, "stop": nothing}.items():
        monkeypatch.setattr(PageServer, name, method)
    monkeypatch.setattr(PageServer, "open_browser", lambda self: desktop)
    monkeypatch.setattr(serve.sys, "stdin", None)
    monkeypatch.setattr(serve.sys, "stdout", SimpleNamespace(isatty=lambda: terminal))
    said: list[str] = []
    await serve.serve([LocalRuns(tmp_path)], PageOptions(), said.append)
    assert [("#code=" in one, one.partition("#")[0]) for one in said] == [(code, "http://127.0.0.1:1/")]


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({}, ""),
        ({"run": "r1"}, "runs/r1"),
        ({"file": Path("review.at")}, "team"),
        ({"run": "r1", "file": Path("review.at")}, "runs/r1"),
    ],
)
def test_an_address_leads_to_what_was_asked_for(tmp_path: Path, options: dict[str, Any], path: str) -> None:
    """With a code of its own each time."""
    server = PageServer([LocalRuns(tmp_path)], PageOptions(open=False, **options))
    server.address = "http://127.0.0.1:1/"
    first, second = server.new_address(), server.new_address()

    assert first.startswith(f"http://127.0.0.1:1/{path}#code=")
    assert first != second
    assert [bool(server.access.trade(one.partition("=")[2])) for one in (second, first, second)] == [True, True, False]


def test_a_browser_is_opened_by_a_private_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no list of processes shows the code; where there is no desktop nothing is opened."""
    opened: list[str] = []
    monkeypatch.setattr(serve.webbrowser, "open", lambda uri: opened.append(uri) or True)
    monkeypatch.setattr("sys.platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    server = PageServer([LocalRuns(tmp_path)], PageOptions())
    server.address = "http://127.0.0.1:1/"
    assert not server.open_browser()
    assert opened == []

    monkeypatch.setenv("DISPLAY", ":0")
    assert server.open_browser()
    [uri] = opened
    file = Path(uri.removeprefix("file://"))
    assert file.stat().st_mode & 0o777 == 0o600
    assert 'content="0;url=http://127.0.0.1:1/#code=' in file.read_text()
    assert "code" not in uri
    server._unlink()
    assert not file.exists()


def test_the_port_of_the_last_start_is_remembered_if_it_can_be_one(tmp_path: Path) -> None:
    """What else lies there is not believed."""
    assert serve._last_port() == 0
    serve._keep_port(7411)
    assert serve._last_port() == 7411
    for text in ("80", "65536", '"7411"', "{", "1" * 100):
        serve._port_file().write_text(text)
        assert serve._last_port() == 0
    serve._port_file().write_text("1024")
    assert serve._last_port() == 1024
