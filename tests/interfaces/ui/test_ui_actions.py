"""Actions over the API: what an older page asks is refused, and what failed is retried."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from command_line import Place
from page_runs import ASKS, played
from page_stage import ACTS, client_of, serving
from stage import Cast, flow
from until import until

from coterie.execution.runs.repository import Runs
from coterie.history.journal.records import TurnStarted
from coterie.interfaces.ui.actions import AnswerAction, ForkAction

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


def test_a_fork_shares_the_answer_that_it_changes(tmp_path: Path) -> None:
    """A fork from the start of a turn begins before it."""
    place = played(tmp_path, flow("a -> b"), cast=Cast({}, seconds=0))
    [begun] = [one.seq for one in place.runs.read("r1") if isinstance(one, TurnStarted) and one.turn == "b#1"]
    assert f"--at={begun - 1}" in ForkAction(turn="b#1").words(place)
    assert not any(word.startswith("--at") for word in ForkAction(turn="a#1", outputs={"a#1": "x"}).words(place))


def test_the_command_of_an_answer_resumes_the_run_that_waits(tmp_path: Path) -> None:
    """As the action does: without a process, the answer alone would have no effect."""
    place = played(tmp_path, ASKS)
    command = AnswerAction(id="boss#1", since=0, text="yes", go=True).command(place)
    assert command.split(" && ")[1:] == ["coterie resume r1 --no-park --state-dir elsewhere"]
