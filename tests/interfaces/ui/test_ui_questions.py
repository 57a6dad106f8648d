"""The six questions that people look at a run with, in a real browser: while it works, and once it has ended."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import preforked
import pytest
from cluster_stage import Server, serving
from page_browser import ServedPage, chromium
from page_keys import press_together
from repositories import commit, repository
from until import until

pytestmark = pytest.mark.slow

ONE = "echo changed > note.txt; echo one wrote a note"
TWO = (
    "echo two is at work; until [ -e go ]; do sleep 0.05; done; "
    "[ -e ok ] || { echo it broke here >&2; exit 1; }; echo two is done"
)


def agent(name: str, does: str) -> str:
    return f'agent {name} {{ extensions {{ coterie {{ command: ["sh", "-c", "{does}"] }} }} }}\n'


FLOW = f"topology steps : [pipeline] {{\n{agent('one', ONE)}{agent('two', TWO)}flow {{ one -> two }}\n}}\n"
AROUND = f"""topology around : [pipeline] {{
{agent("zero", "echo zero")}
agent team {{ extensions {{ coterie {{ topology: "steps.at" }} }} }}
flow {{ zero -> team }}
}}
"""
PATTERN = f"""
pattern: {{type: pipeline, slots: {{one: one, two: two}}}}
agents:
  one: {{command: [sh, -c, "{ONE}"]}}
  two: {{command: [sh, -c, "{TWO}"]}}
"""
LOOP = f"""name = "steps"
completion = "task.complete"

[[role]]
id = "one"
emits = ["note.written"]
prompt = "Write."
backend_command = "sh"
backend_args = ["-c", "{ONE}; coterie emit note.written"]

[[role]]
id = "two"
emits = ["task.complete"]
prompt = "Wait."
backend_command = "sh"
backend_args = ["-c", "{TWO}; coterie emit task.complete"]

[handoff]
"loop.start" = ["one"]
"note.written" = ["two"]
"""
SYSTEM = """
supervision:
  name: root
  children:
    - flow: {name: team, source: steps.at}
entry: team
"""

EITHER = f"mkdir first 2>/dev/null && {{ echo it broke here >&2; exit 1; }}; {ONE}; {TWO}"
EACH = f"""topology each : [pipeline] {{
agent lister {{ outputs {{ files: list }} extensions {{ coterie {{ command: ["cat", "list.json"] }} }} }}
{agent("check", EITHER)}
{agent("report", "echo done")}
flow {{ lister -> check [each lister.files, at-most 2, tolerate 50%]
check -> report }}
}}
"""


@dataclass(frozen=True)
class Case:
    """A run of a kind: what starts it, how the page addresses its turns, and what it shows of them."""

    words: tuple[str, ...]
    one: str = "one#1"
    two: str = "two#1"
    working: str = "[data-node=two].work"
    progress: str = "1 of ≤ 2 turns"
    ends: str = "fail"
    changes: bool = True
    is_retried: bool = True


CASES = {
    "flow": Case(("run", "steps.at", "Go")),
    "nested": Case(
        ("run", "around.at", "Go"), "team#1.1/one#1", "team#1.1/two#1", "[data-node=team].work", "2 of ≤ 3 turns"
    ),
    "pattern": Case(("run", "steps.pattern.yaml", "Go")),
    "loop": Case(("run", "loop", "Go"), "iteration#1", "iteration#2", progress="2 of ≤ 3 iterations", ends="done"),
    "system": Case(
        *(("run", "-t", "system.yaml", "Go"), "team#1.1/one#1", "team#1.1/two#1", "[data-actor=team]", "2 turns"),
        is_retried=False,
    ),
    "cluster": Case(("submit", "steps.at", "--no-files", "Go", "--id", "far-page"), changes=False),
}
QUIET: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def serve(browser: Any) -> Iterator[Callable[..., ServedPage]]:
    """Start `coterie ui` in a folder; nothing may go wrong in its pages."""
    served: list[ServedPage] = []

    def start(folder: Path, *words: str) -> ServedPage:
        served.append(ServedPage(browser, folder, *words))
        return served[-1]

    yield start
    for one in served:
        one.close()
    assert [error for one in served for error in one.errors] == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository with the team in every notation."""
    repository(tmp_path)
    for name, text in {
        "steps.at": FLOW,
        "around.at": AROUND,
        "steps.pattern.yaml": PATTERN,
        "system.yaml": SYSTEM,
        "loop/topology.toml": LOOP,
        "loop/autoloops.toml": 'backend.kind = "command"\nreview.enabled = false\n',
    }.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    return commit(tmp_path, "the teams")


@pytest.mark.parametrize("kind", [kind for kind in CASES if kind != "cluster"])
def test_the_questions_are_answered(folder: Path, serve: Callable[..., ServedPage], kind: str) -> None:
    """What needs me, what works since when, how far and at what cost, what failed and printed, why, what changed."""
    case = CASES[kind]
    process = preforked.start(*case.words, cwd=folder, **QUIET)
    until(lambda: (folder / "note.txt").exists(), 60)
    page = serve(folder).page()
    at_work(page, case)
    if case.ends == "done":
        (folder / "ok").touch()
    (folder / "go").touch()
    process.wait(60)
    ended(page, case, folder)


def test_the_questions_are_answered_on_a_cluster(
    temporal_server: Server, new_export: Callable[[], str], folder: Path, serve: Callable[..., ServedPage]
) -> None:
    """By the same views, and with the same actions."""
    with ThreadPoolExecutor(1) as apart:  # the browser has a loop in this thread
        url = f"{temporal_server.url}?export={apart.submit(new_export).result()}"
    with serving(folder, url):
        preforked.run(*CASES["cluster"].words, cwd=folder, env=os.environ | {"COTERIE_CLUSTER": url})
        until(lambda: (folder / "note.txt").exists(), 60)
        page = serve(folder, "--cluster", url).page()
        at_work(page, CASES["cluster"])
        (folder / "go").touch()
        ended(page, CASES["cluster"], folder)


def test_a_run_at_work_shows_what_failed_in_it_first_and_then_that_its_process_is_gone(
    folder: Path, serve: Callable[..., ServedPage]
) -> None:
    """An item of a set that may fail does not wait for the end of the run; whether the rest moves is said beside it."""
    (folder / "each.at").write_text(EACH)
    (folder / "list.json").write_text('```json\n{"files": ["a.py", "b.py"]}\n```\n')
    process = preforked.start("run", "each.at", "Go", cwd=folder, **QUIET)
    until(lambda: (folder / "note.txt").exists(), 60)
    page = serve(folder).page()
    page.locator(".row", has_text="heard").click()
    page.locator(".failure pre", has_text="it broke here").wait_for()
    page.locator(".facts", has_text="1 of at most 4 turns done, 1 open, 1 failed, 1 not begun").wait_for()
    page.locator(".facts", has_text="last sign of life").wait_for()
    page.keyboard.press("f")
    page.locator(".turn .state.fail").first.wait_for()

    process.kill()
    process.wait()
    page.locator("h1 + .state", has_text="cut off").wait_for()
    press_together(page, "g", "h")
    page.locator(".row", has_text="the process that drove it is gone").wait_for()


def at_work(page: Any, case: Case) -> None:
    """The questions about a run that works, on the first screens that show them."""
    row = page.locator(".row")
    row.locator(".state.work").wait_for()
    row.get_by_text(re.compile(r"two\s*\d+ s")).first.wait_for()
    row.get_by_text(case.progress).wait_for()
    assert "$0.00" in row.inner_text()
    assert page.locator("[data-attention]").count() == 0
    row.click()
    page.locator(case.working).wait_for()
    page.locator(".facts", has_text=f"{name_of(case.two)} ").wait_for()
    page.locator(".facts", has_text="last sign of life").wait_for()
    page.locator(".facts", has_text=re.compile(r"done, 1 open")).wait_for()
    base = page.url
    page.goto(f"{base}?turn={quote(case.two)}")
    page.locator("[data-output]", has_text="two is at work").wait_for()
    page.locator(".turn .state.work").first.wait_for()
    page.locator(".turn .why", has_text=name_of(case.one)).wait_for()
    if case.changes:
        page.goto(f"{base}?turn={quote(case.one)}")
        page.locator(".turn h3", has_text="Files · 1").wait_for()
    page.goto(base)


def ended(page: Any, case: Case, folder: Path) -> None:
    """The questions about a run that has ended; what failed it is retried from the page."""
    page.locator(f"h1 + .state.{case.ends}").wait_for()
    if case.ends == "done":
        assert page.locator(".failure").count() == 0
        return
    page.locator(".failure pre", has_text="it broke here").wait_for()
    assert "two is at work" in page.locator(".failure").inner_text()
    assert "exit status 1" in page.locator(".failure").inner_text()
    press_together(page, "g", "h")
    page.locator(".row .state.fail").wait_for()
    assert "it broke here" in page.locator(".row").inner_text()
    page.locator(".row").click()
    page.keyboard.press("f")
    page.locator(".turn h2", has_text=name_of(case.two)).wait_for()
    if not case.is_retried:
        assert page.get_by_role("button", name="Retry").count() == 0
        return
    (folder / "ok").touch()
    page.keyboard.press("R")
    page.locator("dialog code", has_text="--retry").wait_for()
    page.locator("dialog button.main").click()
    page.locator("dialog .verdict", has_text="accepted").wait_for()
    page.keyboard.press("Escape")
    page.locator("h1 + .state.done").wait_for()
    page.locator("[data-output]", has_text="two is done").wait_for()


def name_of(turn: str) -> str:
    return turn.rpartition("/")[2]
