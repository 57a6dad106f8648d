"""Threads on the page: what the API answers, and a conversation in a real browser."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import Place
from page_browser import ServedPage, chromium
from page_runs import client_of

import coterie
from coterie.interfaces.ui.places import key_of

TEAM = """
topology talk : [pipeline] {
  agent friend { extensions { coterie { command: ["sh", "{here}/friend.sh"]  thread: true } } }
  flow { friend }
}
"""
FRIEND = r"""
prompt=$(cat)
case "$prompt" in *"please fail") exit 1;; esac
echo "shown $(echo "$prompt" | grep -c '^## Message'), <b>asked</b>"
"""


def friend(prompt: str) -> str:
    """Answer."""
    return f"answer to {prompt}"


async def test_the_api_has_the_threads_that_the_commands_print(tmp_path: Path) -> None:
    """A list, the latest messages of one, and keys of runs, also of one that another directory has, too."""
    team = coterie.flow("talk", [coterie.agent("friend", friend, thread=True)])
    home = tmp_path / "state"
    sent = [await coterie.run(team, text, state_dir=home, thread="to-do 1") for text in "abc"]
    shutil.copytree(home / "runs" / sent[1].run, tmp_path / "copy" / "runs" / sent[1].run)
    folder = str((home / "runs" / sent[1].run).resolve())

    async with client_of(home) as (server, client):
        [row] = (await client.get("/api/threads")).json()
        whole = (await client.get("/api/thread?name=to-do+1")).json()
        some = (await client.get("/api/thread?name=to-do+1&limit=2")).json()
        none = await client.get("/api/thread?name=other")
        wrong = await client.get("/api/thread?name=../x")
        document = (await client.get("/api/openapi.json")).json()
        assert (await client.get(f"/api/runs/{whole['messages'][0]['key']}")).json()["runs"][sent[0].run]["thread"]
        page = await client.get("/threads/to-do%201")
        server.places.homes = [*server.places.homes, type(server.places.homes[0])(tmp_path / "copy")]
        shared = (await client.get("/api/thread?name=to-do+1")).json()["messages"]
    assert (row["name"], row["runs"], row["latest"], row["prompt"]) == ("to-do 1", 3, sent[2].run, "c")
    assert [(one["prompt"], one["answer"], one["state"]) for one in whole["messages"]] == [
        (text, f"answer to {text}", "completed") for text in "abc"
    ]
    assert whole["option"] == f" --state-dir {home}"
    assert [one["key"] for one in whole["messages"]] == [one.run for one in sent]
    assert ([one["prompt"] for one in some["messages"]], some["of"]) == (["b", "c"], 3)
    assert [one["key"] for one in shared][1:] == [key_of(sent[1].run, folder, is_shared=True), sent[2].run]
    assert (none.status_code, wrong.status_code) == (409, 409)
    assert "coterie threads" in none.json()["error"]
    assert document["paths"]["/api/thread"]["get"]["parameters"][0]["required"]
    assert page.text.startswith("<!doctype html>")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def served(browser: Any, tmp_path: Path) -> Iterator[ServedPage]:
    (tmp_path / "friend.sh").write_text(FRIEND)
    (tmp_path / "talk.at").write_text(TEAM.replace("{here}", str(tmp_path)))
    found = ServedPage(browser, tmp_path)
    yield found
    found.close()
    assert found.errors == []


@pytest.mark.slow
def test_a_conversation_is_read_on_the_page_while_it_goes_on(served: ServedPage) -> None:
    """The list has what `coterie threads` prints, a thread its messages in order, and each leads to its run."""
    place = Place(served.folder)
    page = served.page("threads")
    page.locator(".empty", has_text="coterie chat").wait_for()
    place.call("run", "talk.at", "one", "--thread", "to do: 1")
    row = page.locator(".row", has_text="to do: 1")
    row.locator(".state.done").wait_for()
    assert "1 run" in row.inner_text()
    row.click()
    page.locator("h1", has_text="to do: 1").wait_for()
    page.locator("[data-message] .answer", has_text="shown 0, <b>asked</b>").wait_for()

    place.call("run", "talk.at", "two", "--thread", "to do: 1")
    place.call("run", "talk.at", "please fail", "--thread", "to do: 1", status=1)
    page.locator("[data-message] .state.fail").wait_for()
    shown = page.locator("[data-message]").all_inner_texts()
    assert ["one" in shown[0], "two" in shown[1], "please fail" in shown[2]] == [True] * 3
    assert "shown 1" in shown[1]
    printed = place.look("thread", "show", "to do: 1").out
    assert "coterie thread show 'to do: 1'" in page.locator("main .command code").inner_text()
    assert all(line in printed for line in ("shown 0, <b>asked</b>", "shown 1, <b>asked</b>", "please fail"))

    page.locator("[data-message] a").nth(1).click()
    page.locator("[data-node=friend].done").wait_for()
    page.locator(".facts a", has_text="to do: 1").click()
    page.locator("[data-message]").nth(2).wait_for()
    page.goto(f"{served.base}threads/none")
    page.locator(".problem", has_text="there is no thread 'none'").wait_for()
    served.errors = [error for error in served.errors if "409" not in error]
