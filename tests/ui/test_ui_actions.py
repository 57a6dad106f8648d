"""Actions over the API: what an older page asks is refused, and the command that each shows does the same."""

import shlex
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
from command_line import Place
from page_stage import ACTS, client_of, serving
from until import until

from coterie.runs.repository import Runs

pytestmark = pytest.mark.slow


async def post(client: httpx.AsyncClient, run: str, what: str, body: dict[str, Any]) -> Any:
    response = await client.post(f"/api/runs/{run}/{what}", json=body, headers=ACTS)
    assert response.status_code == 200, response.text
    return response.json()


async def test_what_an_older_page_shows_is_refused_with_the_reason(at_rest: tuple[Path, str], place: Place) -> None:
    """A question that was answered meanwhile, another owner, a run that is over."""
    state_dir, run = at_rest
    async with serving(state_dir) as server, client_of(server) as client:
        [asked] = (await client.get("/api/home?")).json()["attention"]
        answer = {"do": "answer", "id": asked["id"], "since": asked["since"], "outputs": {"verdict": "approve"}}
        wrong = await post(client, run, "act", answer | {"outputs": {"verdict": "maybe"}})
        late = await post(client, run, "act", answer | {"since": asked["since"] - 1})
        stop = await post(client, run, "act", {"do": "stop"})
        first = await post(client, run, "act", answer)
        resumed = await post(client, run, "act", {"do": "resume", "epoch": 1})
        place.call("inspect", run)
        again = await post(client, run, "act", answer)
        old = await post(client, run, "act", {"do": "fork", "epoch": 1})
    assert wrong["status"] == "refused"
    assert (late["status"], "not open any more" in late["detail"]) == ("refused", True)
    assert (stop["status"], "nothing drives it" in stop["detail"]) == ("refused", True)
    assert first["status"] == "queued"
    assert resumed["status"] == "accepted"
    assert again["status"] == "refused"
    assert (old["status"], "it has owner 2 by now" in old["detail"]) == ("refused", True)


async def test_the_command_of_an_action_does_what_the_action_does(at_rest: tuple[Path, str], place: Place) -> None:
    """Each is typed as it is shown, in another folder."""
    state_dir, run = at_rest
    prompt = place.folder / "FILE"
    prompt.write_text("Be brief")
    actions: list[tuple[dict[str, Any], int]] = [
        ({"do": "guide", "turn": "writer#1", "text": 'it\'s "quoted" $HOME\nline two'}, 0),
        ({"do": "interrupt", "turn": "boss#1"}, 0),
        ({"do": "stop"}, 1),
        ({"do": "fork", "turn": "boss#1", "prompts": {"writer": "Be brief"}, "models": {"writer": "m"}}, 4),
        ({"do": "answer", "id": "boss#1", "since": 0.0, "text": "fine", "outputs": {"verdict": "approve"}}, 0),
        ({"do": "resume", "max_turns": 9, "max_cost": 2.5}, 0),
    ]
    found = {}
    async with serving(state_dir) as server, client_of(server) as client:
        for action, wanted in actions:
            shown = await post(client, run, "preview", action)
            words = shlex.split(shown["command"])
            assert words[0] == "coterie"
            words = [word for word in words if word != "--no-park"]
            done = place.start(*words[1:], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            out, err = done.communicate(timeout=60)
            if done.returncode != wanted:
                found[shown["command"]] = (done.returncode, out, err)
    assert found == {}
    assert len(Runs(state_dir).list()) == 2


async def test_what_failed_is_retried_from_the_page(place: Place) -> None:
    """The run is reopened in another process; a resume without `retry` is refused, since the run is over."""
    place.call("run", "broken.at", status=1)
    [run] = Runs(state_dir := place.folder / ".coterie").list()
    before = len(list(Runs(state_dir).read(run)))
    async with serving(state_dir) as server, client_of(server) as client:
        over = await post(client, run, "act", {"do": "resume"})
        again = await post(client, run, "act", {"do": "resume", "retry": True})
    assert (over["status"], "failed" in over["detail"]) == ("refused", True)
    assert again["status"] == "accepted"
    assert again["command"].startswith(f"coterie resume {run} --no-park --retry")
    until(lambda: len(list(Runs(state_dir).read(run))) > before)
