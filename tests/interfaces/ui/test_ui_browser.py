"""The page in a real browser: the six questions, and each action, on real runs."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from asking_team import make_asking
from command_line import Place
from page_browser import ServedPage, chromium

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


def only_run(place: Place) -> str:
    [run] = Runs(place.folder / ".coterie").list()
    return run


def test_a_running_team_is_seen_at_work_and_steered(serve: Callable[..., ServedPage], place: Place) -> None:
    """What works, since when, how far; then it is guided, interrupted and stopped from the page, and resumed."""
    process = place.start_slow()
    page = serve().page()

    row = page.locator(".row")
    assert "slow" in row.inner_text()
    assert "1 of ≤ 3 turns" in row.inner_text()
    row.locator(".state.work").wait_for()
    row.click()
    page.locator("[data-node=slow].work").wait_for()
    page.locator("[data-node=writer].done").click()
    page.locator("[data-output]", has_text="writer#1 read").wait_for()
    page.locator("[data-node=slow]").click()
    page.locator(".turn h2", has_text="slow#1").wait_for()
    assert "writer#1 answered" in page.locator(".why").inner_text()

    page.locator(".turn").get_by_role("button", name="Guide").click()
    page.locator("dialog textarea").fill("be quick")
    page.locator("dialog code", has_text="coterie control guide").wait_for()
    page.locator("dialog button.main").click()
    page.locator("dialog .verdict", has_text="accepted").wait_for()
    page.evaluate("document.querySelector('dialog').close(), document.querySelector('[data-hotkey=S]').click()")
    page.locator("dialog code", has_text="coterie control stop").wait_for()
    assert not page.locator("dialog .verdict").count(), "a new dialog shows nothing of the former"
    page.locator("dialog button.main").click()
    page.locator("dialog .verdict", has_text="accepted").wait_for()
    page.keyboard.press("Escape")
    process.wait(60)
    page.get_by_role("button", name="Resume").wait_for()
    page.keyboard.press("S")
    page.locator("dialog button.main").click()
    page.locator("dialog .verdict", has_text="accepted").wait_for()
    page.keyboard.press("Escape")
    page.locator("h1 + .state.done").wait_for()
    page.locator("[data-node=publisher].done").wait_for()


def test_a_question_is_answered_in_place(serve: Callable[..., ServedPage], place: Place) -> None:
    """The home page shows it first, with its fields; one button answers and resumes, and each page shows that."""
    place.call("run", "human.at", status=4)
    run = only_run(place)
    served = serve()
    page = served.page()
    other = served.page(fresh=False)

    ask = page.locator("[data-attention]")
    assert "boss#1 asks" in ask.inner_text()
    assert page.locator(".row").count() == 0, "a run is shown once"
    ask.get_by_role("button", name="more").click()
    ask.locator("code", has_text=f"coterie control respond {run}").wait_for()
    ask.get_by_role("button", name="less").click()
    page.locator("#search").fill("no question says this")
    page.locator(".empty").wait_for()
    assert ask.count() == 0
    page.locator("#search").fill("writer#1 read")
    ask.locator("[data-answer=approve]").click()
    page.locator(".notice .verdict", has_text="human: boss#1").wait_for()
    ask.wait_for(state="detached")
    page.locator("#search").fill("")
    page.locator(".row").click()
    page.locator("h1 + .state.done").wait_for()
    other.locator(".row .state.done").wait_for()
    assert other.locator("[data-attention]").count() == 0


def test_a_failure_is_found_with_what_was_printed_and_forked(serve: Callable[..., ServedPage], place: Place) -> None:
    """What went wrong first, what that process printed, why the turn ran; a fork is made from there."""
    place.call("run", "broken.at", status=1)
    page = serve().page()

    row = page.locator(".row")
    row.locator(".state.fail").wait_for()
    assert "it is broken" in row.inner_text()
    row.click()
    page.locator("[data-node=broken].fail").click()
    page.locator("[data-output]", has_text="it is broken").wait_for()
    page.locator(".turn").get_by_role("button", name="Fork from here").click()
    page.locator("dialog code", has_text="coterie fork").wait_for()
    page.locator("dialog button.main").click()
    page.locator("dialog .verdict", has_text="at record").wait_for()
    assert len(Runs(place.folder / ".coterie").list()) == 2
    page.get_by_role("button", name="Open the new run").click()
    page.locator("[data-node=broken].fail").wait_for()


@pytest.mark.extras("acp")
def test_a_permission_is_allowed_from_the_page(serve: Callable[..., ServedPage], place: Place) -> None:
    """A nested team asks; its tool call is allowed with one key, and the run completes."""
    process = place.start("run", make_asking(place.folder, 2), "--no-park")
    page = serve().page()

    ask = page.locator("[data-attention]")
    ask.wait_for()
    assert "permission" in ask.inner_text()
    ask.focus()
    page.keyboard.press("a")
    ask.wait_for(state="detached")
    assert process.wait(60) == 0
    page.locator(".row .state.done").wait_for()


def test_pages_survive_the_end_of_the_run_and_of_the_server(serve: Callable[..., ServedPage], place: Place) -> None:
    """The run is killed: it is cut off. The server is killed: pages say so, and go on with the next one."""
    process = place.start_slow()
    served = serve()
    page = served.page()
    page.locator(".row").click()
    page.locator("[data-node=slow].work").wait_for()
    process.kill()
    process.wait()
    page.locator("h1 + .state", has_text="cut off").wait_for()
    page.locator(".ending .state.fail", has_text="the process that drove it is gone").wait_for()
    assert f"coterie resume {only_run(place)}" in page.locator(".ending").inner_text()
    for view in ("Timeline", "Tree", "Plan"):
        page.locator("nav.tabs").get_by_role("link", name=view).click()
        page.wait_for_url(f"**/{view.lower()}**")
        assert page.locator("main .state.work, main .box.work, main .piece.work").count() == 0
    page.locator("[data-node=slow].fail").wait_for()

    served.kill()
    page.locator("header .live", has_text="not connected since").wait_for()
    assert page.locator("[data-node=writer].done").count() == 1
    served.start()
    other = served.page(fresh=False)
    other.locator(".row").wait_for()
    page.locator("header .live .state.done", has_text="live").wait_for()
    (place.folder / "ready").unlink()
    place.call("resume", only_run(place))
    page.locator("h1 + .state.done").wait_for()
    served.errors = [one for one in served.errors if "Failed to load" not in one and "ERR_CONNECTION" not in one]


def test_the_server_ends_within_a_second_with_streams_open(serve: Callable[..., ServedPage], place: Place) -> None:
    """Ctrl-C; and the run that it shows goes on."""
    process = place.start_slow()
    served = serve()
    page = served.page()
    page.locator(".row").wait_for()
    begin = time.monotonic()
    served.process.send_signal(signal.SIGINT)
    assert served.process.wait(10) == 0
    took = time.monotonic() - begin
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.wait(60)
    served.errors.clear()
    assert took < 1.0 or os.getloadavg()[0] > 2


def test_a_run_is_removed_while_it_is_shown(serve: Callable[..., ServedPage], place: Place) -> None:
    """The page says so and keeps what it had; the list goes on."""
    place.call("run", "loop.at")
    run = only_run(place)
    page = serve().page(f"runs/{run}")
    page.locator("[data-node=writer].done").wait_for()
    place.call("runs", "rm", run)
    page.locator(".problem", has_text="was removed").wait_for()
    assert page.locator("[data-node=writer].done").count() == 1
    page.locator(".brand").click()
    page.locator(".empty").wait_for()


def test_a_journal_that_cannot_be_read_is_reported_and_the_rest_works(
    serve: Callable[..., ServedPage], place: Place
) -> None:
    """Its page says which line is damaged."""
    place.call("run", "loop.at")
    bad = only_run(place)
    place.call("run", "loop.at")
    journal = Runs(place.folder / ".coterie").file(bad)
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:2], b"this is no record\n", *lines[3:]]))
    page = serve().page()
    page.locator(".row").nth(1).wait_for()
    page.goto(page.url.partition("#")[0] + f"runs/{bad}")
    page.locator(".problem", has_text="journal.jsonl").wait_for()


HOSTILE = (
    "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script> </pre></script> "
    "\x1b[31mred\x1b[0m \u202egnp.exe\u2066 ${7*7} {{7*7}} javascript:alert(1) \u2028 \x00"
)


def hostile_team(folder: Path) -> str:
    """A team whose agents say hostile texts wherever they can."""
    (folder / "says.py").write_text(
        "import json, sys\n"
        f"text = {HOSTILE!r}\n"
        "print(text)\nprint('x' * 1_000_000)\nprint(text, file=sys.stderr)\n"
        "print('```json\\n' + json.dumps({'title': text.replace(chr(0), '')}) + '\\n```')\n"
    )
    (folder / "hostile.at").write_text(
        'topology hostile : [pipeline] {\n  agent says { description: "<b>bold</b>" outputs { title: text }\n'
        '    extensions { coterie { command: ["{python}", "{here}/says.py"] } } }\n'
        '  agent hears { reads: [says] extensions { coterie { command: ["cat"] } } }\n  flow { says -> hears }\n}\n'
    )
    return "hostile.at"


def test_hostile_texts_change_nothing_but_themselves(serve: Callable[..., ServedPage], place: Place) -> None:
    """Tags, escape sequences, direction marks and a megabyte in one line, on every view and in the single file."""
    place.call("run", hostile_team(place.folder), HOSTILE.replace("\x00", ""))
    run = only_run(place)
    served = serve()
    page = served.page(f"runs/{run}?turn=says%231")
    page.locator("[data-output]", has_text="onerror").wait_for()
    for view in ("plan", "timeline", "tree", "records", "cost"):
        page.locator("nav.tabs").get_by_role("link", name=view.capitalize(), exact=False).click()
        page.wait_for_url(f"**/{view}**")
        page.locator(".turn [data-output]").wait_for()
        assert page.locator("img, .turn script").count() == 0
        assert "taken" not in page.title()
    assert "\\x1b[31m" in page.locator("[data-output]").inner_text()
    assert "\\u202e" in page.locator("[data-output]").inner_text()
    page.locator(".brand").click()
    page.locator(".row").wait_for()
    assert page.locator(".row img").count() == 0

    file = place.folder / "run.html"
    file.write_text(place.call("inspect", run, "html").out)
    alone = served.browser.new_page()
    asked: list[str] = []
    alone.on("request", lambda request: asked.append(request.url))
    alone.on("console", lambda said: served.errors.append(said.text) if said.type == "error" else None)
    alone.goto(f"{file.as_uri()}#/runs/{run}?turn=says%231")
    alone.locator("[data-output]", has_text="onerror").wait_for()
    assert alone.locator("img").count() == 0
    assert "taken" not in alone.title()
    assert alone.locator("button", has_text="Fork").count() == 0
    assert [url for url in asked if not url.startswith(("file:", "blob:", "data:text/javascript;"))] == []


ADD = """([address, nonce]) => new Promise((resolve) => {
  const script = Object.assign(document.createElement("script"), { src: address, nonce });
  script.onload = () => resolve("runs");
  script.onerror = () => resolve("refused");
  document.body.append(script);
})"""


def test_a_single_file_runs_no_script_but_its_own(browser: Any, place: Place) -> None:
    """A script that something in the page adds, in another file or in its own address, has no nonce."""
    place.call("run", "loop.at")
    file, other = place.folder / "run.html", place.folder / "other.js"
    file.write_text(place.call("inspect", only_run(place), "html").out)
    other.write_text("")
    page = browser.new_page()
    page.goto(file.as_uri())
    page.locator("[data-node=writer].done").wait_for()
    nonce = page.locator("script[type=module]").evaluate("(script) => script.nonce")

    for address in (other.as_uri(), "data:text/javascript,"):
        assert page.evaluate(ADD, [address, ""]) == "refused"
        assert page.evaluate(ADD, [address, nonce]) == "runs"


def test_a_browser_without_shared_workers_shows_the_same(serve: Callable[..., ServedPage], place: Place) -> None:
    """The page then reads the stream itself."""
    process = place.start_slow()
    run = only_run(place)
    served = serve()
    served.page()
    served.context.add_init_script("delete globalThis.SharedWorker")
    page = served.context.new_page()
    page.goto(f"{served.base}runs/{run}")
    page.locator("[data-node=slow].work").wait_for()
    process.send_signal(signal.SIGINT)
    page.locator("h1 + .state", has_text="stopped").wait_for()
    assert page.evaluate("typeof SharedWorker") == "undefined"


def test_ten_tabs_share_one_stream(serve: Callable[..., ServedPage], place: Place) -> None:
    """And one session: a tab without a code takes that of the others."""
    place.call("run", "loop.at")
    run = only_run(place)
    served = serve()
    served.page(f"runs/{run}").locator("[data-node=writer].done").wait_for()
    for _ in range(9):
        page = served.context.new_page()
        page.goto(f"{served.base}runs/{run}")
        page.locator("[data-node=writer].done").wait_for()
    secret = page.evaluate("() => sessionStorage['coterie.secret']")
    about = httpx.get(f"{served.base}api/about", headers={"authorization": f"Bearer {secret}"}).json()
    assert about["streams"] == 1


HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_a_hidden_tab_rests_and_a_killed_one_takes_nothing_with_it(
    serve: Callable[..., ServedPage], place: Place
) -> None:
    """What is hidden fetches nothing until it is seen again; the tab that began the stream crashes, and it goes on."""
    process = place.start_slow()
    run = only_run(place)
    served = serve()
    first = served.page(f"runs/{run}")
    second = served.context.new_page()
    second.goto(f"{served.base}runs/{run}")
    second.locator("[data-node=slow].work").wait_for()
    asked: list[str] = []
    second.on("request", lambda request: asked.append(request.url))
    second.evaluate(HIDE, True)
    process.send_signal(signal.SIGINT)
    process.wait(60)
    first.locator("h1 + .state", has_text="stopped").wait_for()
    assert second.locator("h1 + .state").inner_text() == "running"
    second.evaluate(HIDE, False)
    second.locator("h1 + .state", has_text="stopped").wait_for()
    assert asked == []

    crashed: list[Any] = []
    first.on("crash", lambda tab: crashed.append(tab))
    with contextlib.suppress(Exception):  # there is no answer
        first.goto("chrome://crash", timeout=5_000)
    (place.folder / "ready").unlink()
    place.call("resume", run)
    second.locator("h1 + .state.done").wait_for()
    assert crashed == [first]
    served.errors.clear()
