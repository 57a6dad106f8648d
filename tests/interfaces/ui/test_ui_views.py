"""The views of a run in a real browser, on real runs of every kind."""

import asyncio
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from command_line import Place, make
from msgspec.structs import replace
from page_browser import ServedPage, chromium
from page_keys import press_together
from page_spender import BIG, spend
from page_tools import tool

from coterie.execution.runs.repository import Runs
from coterie.history.journal.records import TurnStarted
from coterie.interfaces.ui.routes import PAGE

pytestmark = pytest.mark.slow

TOP = Path(__file__).parents[3]
FAILING = """
topology outer : [pipeline] {
  agent writer { extensions { coterie { command: ["sh", "{here}/agent.sh"] } } }
  agent inner { extensions { coterie { topology: "broken.at" } } }
  flow { writer -> inner }
}
"""
CRASHING = """
from coterie.agents.actors.message import Message
from coterie.agents.actors.process import AgentProcess


class Idle(AgentProcess):
    async def handle(self, message: Message) -> Message | None:
        return None


class Bad(AgentProcess):
    async def on_start(self) -> None:
        try:
            open("crashed", "x").close()
        except FileExistsError:
            return
        self.send_after(0.01, "boom")

    async def handle(self, message: Message) -> Message | None:
        raise ValueError("no such order")
"""
SYSTEM = """
supervision:
  name: root
  max_restarts: 3
  backoff_base: 0
  children:
    - agent: {name: idle, type: staff.Idle}
    - agent: {name: bad, type: staff.Bad}
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def runs(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> "Shown":
    """A folder with an ended run of every kind that ends."""
    folder = tmp_path_factory.mktemp("views")
    place = make(folder)
    (folder / "outer.at").write_text(FAILING)
    shutil.copytree(TOP / "examples/tidy", folder / "tidy")
    shutil.copytree(TOP / "examples/jury", folder / "jury")
    (folder / "tidy/draft.txt").write_text("The the keeper climbed the stairs.\n")
    shown = Shown(place)
    shown.made("nested", "run", "nested.at", "Tell a story")
    shown.made("first", "run", "loop.at", "one text")
    shown.made("second", "run", "loop.at", "another text", "--max-cost", "2")
    shown.made("broken", "run", "outer.at", status=1)
    shown.made("human", "run", "human.at", status=4)
    place.call("control", "respond", shown.ids["human"], "boss#1", "yes", "--output", "verdict=approve")
    place.call("resume", shown.ids["human"])
    shown.made("loop", "run", "tidy")
    shown.made("pattern", "run", "jury/jury.pattern.yaml", "Good morning")
    with ThreadPoolExecutor(1) as apart:  # the browser has a loop in this thread
        apart.submit(lambda: asyncio.run(spend(folder / ".coterie"))).result()
    return shown


class Shown:
    """Runs by the name that a test gives them."""

    def __init__(self, place: Place) -> None:
        self.place, self.ids = place, dict[str, str]()

    def made(self, name: str, *words: str, status: int = 0) -> None:
        """Run *words* to the end, and call the run *name*."""
        before = self.known()
        self.place.call(*words, status=status)
        [self.ids[name]] = self.known() - before

    def known(self) -> set[str]:
        """All runs in the folder: loops keep theirs in a state directory of their own."""
        return {run for state_dir in (".coterie", ".autoloop") for run in Runs(self.place.folder / state_dir).list()}


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


def chosen(page: Any) -> list[str]:
    """What is marked as the selection in the view that is shown."""
    return [text.split("\n")[0] for text in page.locator(".line.chosen").all_inner_texts()]


def test_one_selection_is_shared_by_all_views_and_reached_by_keys(
    runs: Shown, serve: Callable[..., ServedPage]
) -> None:
    """A turn of a nested team: chosen in the tree by keys alone, it is the one of timeline, records and plan."""
    page = serve(runs.place.folder).page(f"runs/{runs.ids['nested']}")
    page.locator("[data-node=inner]").wait_for()

    press_together(page, "g", "e")
    page.locator("[role=treeitem]").first.wait_for()
    rows = page.locator("[role=treeitem]")
    assert [row.get_attribute("data-turn") for row in rows.all()] == [
        None,
        "writer#1",
        "inner#1",
        None,
        *(f"inner#1.1/{turn}" for turn in ("writer#1", "reviewer#1", "writer#2", "reviewer#2", "publisher#1")),
        "publisher#1",
    ]
    for _ in range(6):
        page.keyboard.press("j")
        page.locator("[role=treeitem]:focus").wait_for()
    page.locator("[role=treeitem][data-turn='inner#1.1/reviewer#1']:focus").wait_for()
    page.keyboard.press("Enter")
    page.locator(".turn h2", has_text="reviewer#1").wait_for()
    assert page.locator("[role=treeitem].chosen").get_attribute("data-turn") == "inner#1.1/reviewer#1"
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    page.locator("[role=treeitem][aria-level='3']:focus").wait_for()
    page.keyboard.press("ArrowLeft")
    page.locator("[role=treeitem][aria-expanded=false]").wait_for()
    assert rows.count() == 5

    press_together(page, "g", "t")
    page.locator(".lane.chosen", has_text="inner/reviewer").wait_for()
    assert page.locator(".piece.chosen").get_attribute("data-turn") == "inner#1.1/reviewer#1"
    page.locator(".lane.chosen").focus()
    page.keyboard.press("ArrowRight")
    page.locator(".piece.chosen[data-turn='inner#1.1/reviewer#2']").wait_for()

    press_together(page, "g", "r")
    page.get_by_label("only inner#1.1/reviewer#2").check()
    page.locator(".records [role=status]", has_text=re.compile("^3 records$")).wait_for()
    shown = page.locator(".records .line").all_inner_texts()
    assert ["reviewer#2" in text for text in shown] == [True] * 3, shown
    page.locator(".records .line").first.focus()
    page.keyboard.press("r")
    page.locator("[data-raw]", has_text='"turn": "reviewer#2"').wait_for()
    page.keyboard.press("r")
    page.locator("[data-raw]").wait_for(state="detached")

    press_together(page, "g", "p")
    page.locator("[data-node=inner].chosen").wait_for()
    page.locator(".nest").focus()
    page.keyboard.press("Enter")
    page.locator("[data-node=reviewer]").wait_for()
    page.keyboard.press("Escape")
    page.locator(".turn").wait_for(state="detached")


def test_records_are_filtered_by_kind_and_text(runs: Shown, serve: Callable[..., ServedPage]) -> None:
    """The sentences of the command line; `/` searches in them, and what does not fit says so."""
    run = runs.ids["first"]
    page = serve(runs.place.folder).page(f"runs/{run}/records")
    lines = page.locator(".records .line")
    lines.first.wait_for()

    told = runs.place.look("inspect", run, "timeline").out.splitlines()
    lines.nth(len(told) - 1).wait_for()
    assert lines.count() == len(told)
    assert all(text.split("\n")[-1] in line for text, line in zip(lines.all_inner_texts(), told, strict=True))
    page.get_by_label("kind").select_option("turn.")
    page.locator(".records [role=status]", has_text=re.compile("^10 records$")).wait_for()
    page.keyboard.press("/")
    page.keyboard.type("reviewer#2 answered")
    page.locator(".records [role=status]", has_text=re.compile("^1 record$")).wait_for()
    lines.click()
    page.locator("[data-raw]", has_text='"verdict": "approve"').wait_for()
    page.locator(".command", has_text=f"coterie inspect {run} journal --from").wait_for()
    page.locator("[data-search]").fill("no record says this")
    page.locator(".empty", has_text="No record fits").wait_for()


def test_the_timeline_shows_waits_and_owners(runs: Shown, serve: Callable[..., ServedPage]) -> None:
    """What waited for a person has its own shade; a mark says where another process took the run over."""
    page = serve(runs.place.folder).page(f"runs/{runs.ids['human']}/timeline")
    page.locator(".piece.done").first.wait_for()

    assert [text.split("\n")[0] for text in page.locator(".lane .who").all_inner_texts()] == [
        "writer",
        "boss",
        "publisher",
    ]
    assert page.locator(".lane .piece.person").get_attribute("data-turn") == "boss#1"
    assert page.locator(".owner-mark").count() == 1
    assert "another process took over after" in str(page.locator(".axis svg").get_attribute("aria-label"))
    assert "waited 1 times" in str(page.locator(".lane", has_text="boss").get_attribute("aria-label"))
    before = float(page.locator(".piece[data-turn='publisher#1'] rect").get_attribute("x"))
    page.locator(".lane[data-n='2']").focus()
    page.keyboard.press("+")
    page.locator(".timeline button", has_text="all").click()
    assert float(page.locator(".piece[data-turn='publisher#1'] rect").get_attribute("x")) == before


AXES = """
async () => {
  const { axis, placeOf, ticks, roundedEnd } = await import("/views/axis.js");
  const { lineDiff } = await import("/views/line-diff.js");
  const folded = axis([[0, 10], [5, 20], [86400, 86410]], 0, 86410, 86410);
  const whole = axis([[0, 10], [12, 20]], 0, 20, 20);
  const none = axis([], 0, 100, 100);
  return {
    kinds: folded.map((one) => [one.folded, one.from, one.to]),
    sum: folded.reduce((all, one) => all + one.width, 0),
    order: [0, 10, 20, 50000, 86400, 86410].map((at) => placeOf(folded, at)),
    outside: [placeOf(folded, -5), placeOf(folded, 1e9)],
    ticks: ticks(whole, 0, 400, 90).map((one) => one.text),
    closeTicks: ticks(axis([[0, 1]], 0, 1, 1), 0, 900, 90).slice(0, 3).map((one) => one.text),
    pieces: [whole.length, none.length, none[0].folded],
    same: roundedEnd(0, 100) === roundedEnd(0, 101),
    after: [1, 59, 60, 3599, 1e6].every((now) => roundedEnd(0, now) > now),
    diff: lineDiff(["a", "b", "c", "d"], ["a", "x", "c", "e", "d"]),
    unlike: lineDiff(["a"], ["b"]),
    long: lineDiff(..."ab".split("").map((c) => Array.from({ length: 900 }, (_, n) => c + n))).length,
  };
}
"""


def test_idle_stretches_are_folded_and_lines_aligned(runs: Shown, serve: Callable[..., ServedPage]) -> None:
    """The axis and the comparison of texts by themselves, in the browser that runs them."""
    found = serve(runs.place.folder).page().evaluate(AXES)

    assert found["kinds"] == [[False, 0, 20], [True, 20, 86400], [False, 86400, 86410]]
    assert abs(found["sum"] - 1) < 1e-9
    assert found["order"] == sorted(found["order"])
    assert found["order"][2] > 0.6
    assert found["order"][4] - found["order"][2] < 0.03
    assert found["outside"] == [0, 1]
    assert found["ticks"] == ["0 s", "5 s", "10 s", "15 s", "20 s"]
    assert found["closeTicks"] == ["0.0 s", "0.1 s", "0.2 s"]
    assert found["pieces"] == [1, 1, True]
    assert found["same"]
    assert found["after"]
    assert found["diff"] == [["a", "a"], ["b", None], [None, "x"], ["c", "c"], [None, "e"], ["d", "d"]]
    assert found["unlike"] == [["a", None], [None, "b"]]
    assert found["long"] == 1800


def test_a_running_flow_moves_in_every_view(serve: Callable[..., ServedPage], place: Place) -> None:
    """Bars and rows say what works; what is written while a view is open appears in it; then the run is stopped."""
    process = place.start_slow()
    [run] = Runs(place.folder / ".coterie").list()
    served = serve(place.folder)
    page = served.page(f"runs/{run}/timeline")
    page.locator(".piece.work[data-turn='slow#1']").wait_for()
    assert page.locator(".piece.done[data-turn='writer#1']").count() == 1
    tree = served.page(f"runs/{run}/tree", fresh=False)
    tree.locator("[data-turn='slow#1'] .state.work").wait_for()
    tree.locator("[role=treeitem]", has_text="publisher").locator(".state.next", has_text="not begun").wait_for()
    records = served.page(f"runs/{run}/records", fresh=False)
    records.locator(".line", has_text="attempt 1 of slow#1").wait_for()

    place.call("control", "guide", run, "slow#1", "be quick")
    records.locator(".line", has_text="be quick").wait_for()
    process.send_signal(signal.SIGINT)
    process.wait(60)
    records.locator(".line", has_text="stopped").first.wait_for()
    tree.locator("[role=treeitem]").first.locator(".state", has_text="stopped").wait_for()
    page.locator("h1 + .state", has_text="stopped").wait_for()
    page.locator(".now").wait_for(state="detached")


def test_a_supervised_system_is_its_tree_with_crashes(serve: Callable[..., ServedPage], place: Place) -> None:
    """At work: who was restarted and why; after its end: that it has stopped."""
    (place.folder / "staff.py").write_text(CRASHING)
    (place.folder / "topology.yaml").write_text(SYSTEM)
    process = place.start("run", "-t", "topology.yaml", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    page = serve(place.folder).page()
    page.locator(".row", has_text="root").click()

    bad = page.locator("[data-actor=bad]")
    said = "3 actors are running; 1 restart, 1 crash, 1 message not handled."
    page.locator(".system [role=status]", has_text=said).wait_for()
    assert bad.locator("td.number").all_inner_texts()[1:] == ["1", "1", "1"]
    assert "no such order" in bad.inner_text()
    assert page.locator("[data-actor]").evaluate_all("all => all.map((one) => one.dataset.actor)") == [
        "root",
        "idle",
        "bad",
    ]
    press_together(page, "g", "e")
    page.locator("[role=treeitem]", has_text="bad").get_by_text("restarted 1×").wait_for()
    process.send_signal(signal.SIGINT)
    process.wait(60)
    press_together(page, "g", "p")
    page.locator(".system [role=status]", has_text="The system has stopped").wait_for()


def test_the_first_failure_is_one_key_away(runs: Shown, serve: Callable[..., ServedPage]) -> None:
    """In a team at a node: its end of the output is shown at once, and `f` goes to the turn."""
    page = serve(runs.place.folder).page(f"runs/{runs.ids['broken']}/cost")
    page.locator(".failure pre", has_text="it is broken").wait_for()
    assert "exit status 1" in page.locator(".failure").inner_text()

    page.keyboard.press("f")
    page.locator(".failure pre:focus").wait_for()
    page.locator(".turn h2", has_text="broken#1").wait_for()
    assert "turn=inner%231.1%2Fbroken%231" in page.url
    page.locator(".turn [data-output]", has_text="it is broken").wait_for()


def test_costs_are_summed_beside_the_budget(runs: Shown, serve: Callable[..., ServedPage]) -> None:
    """By agent, model and turn, and over time; of many turns only those on the screen are in the document."""
    served = serve(runs.place.folder)
    page = served.page(f"runs/{BIG}/cost")
    page.locator(".chart svg").wait_for()

    facts = page.locator(".cost .facts").inner_text().replace("\n", " ")
    for part in ("spent $0.60", "budget $1.00, 60 % spent", "600 turns, $0.60", "480,000 · 54,000"):
        assert part in facts, facts
    assert page.locator("section[aria-label='By agent'] .line").all_inner_texts()[0].split()[:3] == [
        "writer",
        "×300",
        "$0.30",
    ]
    assert str(page.locator(".chart svg").get_attribute("aria-label")).startswith("Cost over time: $0.60 after")
    assert "budget $1.00" in page.locator(".chart").inner_text()
    turns = page.locator("section[aria-label='By turn'] .line")
    assert turns.count() < 60
    turns.first.focus()
    page.keyboard.press("End")
    page.locator("section[aria-label='By turn'] .line[aria-posinset='600']:focus").wait_for()
    page.keyboard.press("Enter")
    page.locator(".turn h2").wait_for()
    free = served.page(f"runs/{runs.ids['second']}/cost", fresh=False)
    free.locator(".empty", has_text="Nothing has cost money yet").wait_for()
    assert "budget\n$2.00" in free.locator(".cost .facts").inner_text()


def test_many_turns_are_windowed_in_tree_records_and_timeline(runs: Shown, serve: Callable[..., ServedPage]) -> None:
    """The end is reached by one key; the bars of a lane never outnumber its pixels, and zooming shows each."""
    served = serve(runs.place.folder)
    page = served.page(f"runs/{BIG}/tree")
    records = str(len(list(Runs(runs.place.folder / ".coterie").read(BIG))))
    for view, last in (("e", "601"), ("r", records)):
        press_together(page, "g", view)
        page.locator(f".line[aria-setsize='{last}']").first.wait_for()
        assert page.locator(".line").count() < 90
        page.locator(".line").first.focus()
        page.keyboard.press("End")
        page.locator(f".line[aria-posinset='{last}']:focus").wait_for()
        page.keyboard.press("k")
        page.locator(f".line[aria-posinset='{int(last) - 1}']:focus").wait_for()
    press_together(page, "g", "t")
    page.locator(".lane .piece").first.wait_for()
    page.set_viewport_size({"width": 360, "height": 900})
    joined = page.locator(".lane .piece title", has_text="zoom in to see each")
    joined.first.wait_for(state="attached")
    page.wait_for_function("document.querySelectorAll(\".lane[data-n='0'] .piece\").length <= 150")
    page.locator(".lane[data-n='0']").focus()
    for _ in range(20):  # the shorter the turns were, the closer one has to look
        if joined.count() == 0:
            break
        page.keyboard.press("+")
    joined.first.wait_for(state="detached")
    page.locator(".lane .piece title", has_text="done in").first.wait_for(state="attached")


def test_two_runs_are_compared_up_to_where_they_differ(runs: Shown, serve: Callable[..., ServedPage]) -> None:
    """Chosen from the list; their prompts side by side, with a mark at what only one has."""
    served = serve(runs.place.folder)
    page = served.page(f"runs/{runs.ids['first']}")
    page.get_by_role("link", name="Compare").click()
    page.get_by_label("Run b").select_option(runs.ids["second"])

    page.locator(
        ".verdict", has_text="The runs have another input. From the start: writer#1 differs in prompt."
    ).wait_for()
    assert page.locator(".pair.line").count() == 5
    page.locator(".by-line .only", has_text="one text").wait_for()
    page.locator(".by-line .only", has_text="another text").wait_for()
    page.locator(".pair.line[data-turn='reviewer#1']").click()
    page.locator(".difference h2", has_text="reviewer#1").wait_for()
    page.locator(".difference pre", has_text='{"verdict": "revise"}').first.wait_for()
    page.locator(".difference pre", has_text='verdict = "revise"').wait_for()
    same = served.page(f"compare?a={runs.ids['first']}&b={runs.ids['first']}", fresh=False)
    same.locator(".verdict", has_text="All 5 turns are the same.").wait_for()
    same.get_by_role("button", name="show the 5 turns that are the same").click()
    assert same.locator(".pair.line").count() == 5


@pytest.mark.parametrize(
    ("name", "lanes", "rows"), [("loop", "finder", "iteration#1"), ("pattern", "primary", "primary#1")]
)
def test_loops_and_patterns_have_all_views(
    runs: Shown, serve: Callable[..., ServedPage], name: str, lanes: str, rows: str
) -> None:
    """The lanes of a loop are its roles; the tree has its iterations."""
    page = serve(runs.place.folder).page(f"runs/{runs.ids[name]}/timeline")
    page.locator(".lane", has_text=lanes).locator(".piece.done").first.wait_for()
    press_together(page, "g", "e")
    page.locator("[role=treeitem]", has_text=rows).locator(".state.done").wait_for()
    press_together(page, "g", "c")
    page.locator("section[aria-label='By turn'] .line", has_text=rows).wait_for()


def test_a_team_is_shown_as_its_file_is_saved(serve: Callable[..., ServedPage], place: Place) -> None:
    """Findings at the nodes they concern; while it is broken, the last picture stays and says so."""
    file = place.folder / "human.at"
    good = file.read_text()
    page = serve(place.folder, "human.at").page()
    page.locator(".state.done", has_text="valid").wait_for()
    assert "at most\n3 turns" in page.locator(".facts").inner_text()
    assert page.locator("[data-node]").count() == 3

    file.write_text(good.replace("-> publisher", '-> publisher [when boss.verdikt == "approve"]'))
    page.locator("[data-node=boss][data-findings=error]").wait_for()
    page.locator("h1 + .state.fail", has_text="cannot run").wait_for()
    page.locator("#announcer", has_text="Saved: cannot run, 1 error").wait_for()
    page.locator("[data-node=boss]").focus()
    page.keyboard.press("Enter")
    page.locator(".findings", has_text="declares no output 'verdikt'").wait_for()
    page.get_by_text("the picture is that of").wait_for()
    page.keyboard.press("Escape")
    file.write_text(good.replace("publisher", "printer"))
    page.locator("[data-node=printer]").wait_for()
    file.write_text("topology { agent")
    page.locator(".findings .state.fail").first.wait_for()
    assert page.locator("[data-node=printer]").count() == 1
    file.write_text(good)
    page.locator("[data-node=publisher]").wait_for()
    page.locator("h1 + .state.done", has_text="valid").wait_for()
    assert page.get_by_text("the picture is that of").count() == 0


def test_no_view_is_hard_to_use(runs: Shown, serve: Callable[..., ServedPage]) -> None:
    """axe finds nothing in any view, light and dark; nothing is wider than the screen, from 360 to 2,560 px."""
    axe = tool("axe-core/axe.min.js").read_text()
    served = serve(runs.place.folder, "human.at")
    page = served.page(bypass_csp=True)
    failed = []
    run = "runs/" + runs.ids["nested"]
    turn = "?turn=inner%231.1%2Freviewer%231"
    for path, state in {
        "": ".row",
        f"{run}/plan{turn}": "[data-node]",
        f"{run}/timeline{turn}": ".piece.chosen",
        f"{run}/tree{turn}": ".line.chosen",
        f"{run}/records?record=5": "[data-raw]",
        f"runs/{BIG}/cost": ".chart svg",
        f"runs/{BIG}/timeline": ".piece",
        f"runs/{runs.ids['broken']}/tree": ".failure pre",
        f"compare?a={runs.ids['first']}&b={runs.ids['second']}": ".difference",
        "compare": ".empty",
        "team": ".findings li",
    }.items():
        page.goto(served.base.removesuffix("team") + path)
        page.locator(state).first.wait_for()
        for scheme, width in (("light", 1300), ("dark", 1300), ("light", 360), ("dark", 2560)):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)
            page.evaluate(axe)
            found = page.evaluate("axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']})")
            failed += [
                f"{path} {scheme} {width}: {one['id']}: {one['nodes'][0]['html']}" for one in found["violations"]
            ]
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                failed.append(f"{path} {width}: wider than the screen")
    assert failed == [], "\n".join(failed)


def test_a_prompt_that_may_differ_is_said_within_the_width_of_a_phone(
    runs: Shown, serve: Callable[..., ServedPage]
) -> None:
    """It is made again, and is not the one that was sent."""
    kept = Runs(runs.place.folder / ".coterie")
    began, *others = kept.read(runs.ids["first"])
    writer = kept.claim_file("differs")
    writer.append(
        [
            replace(began, run="differs"),
            *(replace(one, prompt="x") if isinstance(one, TurnStarted) else one for one in others),
        ]
    )
    writer.give_up()
    page = serve(runs.place.folder).page("runs/differs/tree?turn=writer%231", viewport={"width": 390, "height": 844})
    page.locator(".turn h3 .state", has_text="it may differ from what was sent").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_page_has_no_wrong_type() -> None:
    """`tsc --checkJs` finds nothing in its modules."""
    checked = subprocess.run(
        ["node", tool("typescript/bin/tsc"), "-p", PAGE], capture_output=True, text=True, check=False, timeout=120
    )
    assert (checked.returncode, checked.stdout) == (0, "")
