"""Events and answers that come late, twice, or after what they were meant for has gone."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from asking_team import make_asking
from command_line import Place
from page_browser import ServedPage, chromium
from until import until

from coterie.execution.runs.repository import Runs

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def serve(browser: Any, tmp_path: Path) -> Iterator[Callable[..., ServedPage]]:
    """Start `coterie ui` in the folder of the test; nothing may go wrong in its pages."""
    served: list[ServedPage] = []

    def start(*words: str) -> ServedPage:
        served.append(ServedPage(browser, tmp_path, *words))
        return served[-1]

    yield start
    for one in served:
        one.close()
    assert [error for one in served for error in one.errors] == []


HUB = """
async () => {
  const { Hub } = await import("/hub.js");
  const asked = [];
  const real = window.fetch;
  window.fetch = (path, given) => new Promise((answer) => {
    const { readable, writable } = new TransformStream();
    const writer = writable.getWriter();
    const say = (kind, id, topic, data) => writer.write(new TextEncoder().encode(
      `event: ${kind}\\nid: ${id}\\ndata: ${JSON.stringify({ topic, data })}\\n\\n`));
    const begin = (status) => answer(new Response(status === 200 ? readable : null, { status }));
    asked.push({ topics: JSON.parse(given.body).topics, say, begin });
  });
  const turn = () => new Promise((done) => setTimeout(done, 0));
  const settle = async () => { for (let k = 0; k < 20; k++) await turn(); };
  const tab = (hub, key, topics, secret) => {
    const heard = [];
    hub.receive(key, { do: "session", secret }, (message) => heard.push(message));
    hub.receive(key, { do: "watch", topics }, (message) => heard.push(message));
    hub.connect();
    return heard;
  };
  const found = {};
  const event = (text) => ({ attempt: 1, event: { kind: "text", channel: "out", text } });
  const output = (text) => ({ first: false, cut: false, events: [event(text)] });

  let hub = new Hub();
  const one = tab(hub, "one", ["output/r"], "s");
  asked[0].begin(200);
  await settle();
  asked[0].say("output", "1", "output/r", output("a"));
  await settle();
  tab(hub, "two", ["run/r"], "s");
  asked[1].begin(200);
  found.after = asked[1].topics["output/r"];
  asked[0].say("output", "2", "output/r", output("b"));  // of the stream that has been replaced
  await settle();
  asked[1].say("output", "2", "output/r", output("b"));
  await settle();
  found.text = hub.topics.get("output/r").state.events.map((one) => one.event.text).join("");
  found.heard = one.filter((message) => message.kind === "output").length;

  asked[1].say("problem", "", "run/r", { error: "damaged" });
  await settle();
  const three = tab(hub, "three", ["run/r"], "s");
  found.late = three.filter((message) => message.kind === "problem").map((message) => message.data.error);

  asked.length = 0;
  hub = new Hub();
  const four = tab(hub, "four", ["run/r"], "old");
  hub.receive("four", { do: "session", secret: "new" });  // before the answer to the old one
  asked[0].begin(401);
  await settle();
  found.secret = hub.secret;
  found.refused = four.filter((message) => message.kind === "refused").length;
  window.fetch = real;
  return found;
}
"""


def test_a_stream_that_was_replaced_changes_nothing_any_more(serve: Callable[..., ServedPage], place: Place) -> None:
    """Neither what it still brings, nor that its secret is old; and a tab that comes late hears of problems."""
    found = serve().page().evaluate(HUB)

    assert found == {"after": "1", "text": "ab", "heard": 2, "late": ["damaged"], "secret": "new", "refused": 0}


WINDOWED = """
async () => {
  const { html, render } = await import("/base.js");
  const { Windowed } = await import("/views/windowed.js");
  const place = document.body.appendChild(document.createElement("div"));
  const show = async (rows) => {
    const row = (n) => rows[n];
    render(html`<${Windowed} count=${rows.length} height=${20} label="rows" keyOf=${row} row=${row} />`, place);
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    return [document.activeElement.textContent, document.activeElement.dataset.n];
  };
  await show(["a", "b"]);
  place.querySelector("[data-n='1']").focus();
  const found = [await show(["a", "b"]), await show(["x", "y", "a", "b"]), await show(["b"])];
  place.remove();
  return found;
}
"""
LATE = """
async () => {
  const search = document.getElementById("search");
  search.value = "nothing like it";
  search.dispatchEvent(new Event("input", { bubbles: true }));
  document.querySelector(".ask a").click();
  await new Promise((done) => setTimeout(done, 400));  // the timer of the search was set before, and for less
}
"""


def test_the_focus_and_what_is_typed_stay_while_the_page_changes(
    serve: Callable[..., ServedPage], place: Place
) -> None:
    """The focus with its row, an answer over other views; a search that comes late does not lead away."""
    place.call("run", "human.at", status=4)
    page = serve().page()
    assert page.evaluate(WINDOWED) == [["b", "1"], ["b", "3"], ["b", "0"]]

    page.evaluate(LATE)
    page.locator("[data-node=boss]").wait_for()
    assert "/runs/" in page.url
    assert "nothing" not in page.url
    assert page.locator("#search").input_value() == ""
    page.locator(".ask input").fill("not so fa")
    page.get_by_role("link", name="Timeline").click()
    page.locator(".lane").first.wait_for()
    assert page.locator(".ask input").input_value() == "not so fa"


TWICE = """() => {
  const form = document.querySelector("dialog form");
  form.requestSubmit();
  form.requestSubmit();
}"""


def test_an_action_that_is_sent_twice_is_done_once(serve: Callable[..., ServedPage], place: Place) -> None:
    """Two Enters before the button is disabled; and a dialog goes with the run that it is about."""
    place.call("run", "loop.at")
    [run] = Runs(place.folder / ".coterie").list()
    page = serve().page()
    page.locator(".row").click()
    acts: list[str] = []
    page.on("request", lambda request: acts.append(request.url) if request.url.endswith("/act") else None)
    page.get_by_role("button", name="Fork…").click()
    page.locator("dialog").get_by_label("go on").uncheck()
    page.locator("dialog code", has_text=f"coterie fork {run}").wait_for()
    page.evaluate(TWICE)
    page.locator("dialog .verdict", has_text="accepted").wait_for()
    assert len(acts) == 1
    page.get_by_role("button", name="Open the new run").click()
    page.locator("dialog").wait_for(state="detached")
    page.get_by_role("button", name="Fork…").click()
    page.locator("dialog").wait_for()
    page.go_back()
    page.locator("dialog").wait_for(state="detached")
    assert len(Runs(place.folder / ".coterie").list()) == 2


HELD = """(seen) => {
  const ask = document.querySelector("[data-attention]");
  if (seen) ask.dataset.seen = "0";
  else ask.dataset.seen = String(performance.now());
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "a", bubbles: true, repeat: seen }));
  return document.activeElement === ask;
}"""


@pytest.mark.extras("acp")
def test_a_key_answers_only_what_its_reader_has_seen(serve: Callable[..., ServedPage], place: Place) -> None:
    """A key that is held down answers nothing; what has just come is focused first."""
    process = place.start("run", make_asking(place.folder, 2), "--no-park")
    page = serve().page()
    acts: list[str] = []
    page.on("request", lambda request: acts.append(request.url) if request.url.endswith("/act") else None)
    page.locator("[data-attention]").wait_for()
    assert not page.evaluate(HELD, True)
    assert page.evaluate(HELD, False)
    assert acts == []
    page.keyboard.press("a")
    page.locator("[data-attention]").wait_for(state="detached")
    assert process.wait(60) == 0
    assert len(acts) == 1


GROWS = """
topology grows : [pipeline] {
  agent says { extensions { coterie { command: ["sh", "-c",
    "printf begin; until [ -e more ]; do sleep 0.05; done; echo and more"] } } }
  flow { says }
}
"""
SELECT = """() => {
  const node = document.querySelector("[data-output] span").firstChild;
  document.getSelection().setBaseAndExtent(node, 0, node, 5);
}"""


def test_what_is_selected_in_an_output_stays_selected_as_it_grows(
    serve: Callable[..., ServedPage], place: Place
) -> None:
    """What came meanwhile appears once nothing is selected."""
    (place.folder / "grows.at").write_text(GROWS.replace("printf begin", "echo begin"))
    process = place.start("run", "grows.at")
    until(lambda: Runs(place.folder / ".coterie").list(), 60)
    [run] = Runs(place.folder / ".coterie").list()
    page = serve().page(f"runs/{run}?turn=says%231")
    page.locator("[data-output]", has_text="begin").wait_for()
    page.evaluate(SELECT)
    (place.folder / "more").touch()
    process.wait(60)
    page.locator("h1 + .state.done").wait_for()
    page.locator(".turn h3", has_text="Files").wait_for()
    assert page.evaluate("() => String(document.getSelection())") == "begin"
    page.evaluate("() => document.getSelection().removeAllRanges()")
    page.locator("[data-output]", has_text="and more").wait_for()
