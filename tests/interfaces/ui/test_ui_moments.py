"""What the page says of random runs at random moments is what `coterie inspect` says of the same records."""

import base64
import gzip
import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from page_browser import ServedPage, chromium
from page_moments import RUN, moment
from stage import flow

from coterie.execution.runs.repository import Runs
from coterie.history.journal import records as r
from coterie.history.journal.memory import MemoryStore
from coterie.interfaces.cli import views
from coterie.interfaces.ui.single_file import page_of
from coterie.team.planning.plan import AgentPlan, to_json

SHOW = """async ([n, data, open]) => {
  const { html, render } = await import("page/base.js");
  const { embedded } = await import("page/embedded.js");
  const { about, setClock } = await import("page/store.js");
  const { Run } = await import("page/views/run.js");
  const { duration } = await import("page/words.js");
  about.is_file = true;
  embedded.data = data;
  setClock(data.saved || 1e6, true);
  const place = document.body.appendChild(document.createElement("div"));
  place.style.setProperty("--tall", "100000px");
  const frames = async () => {
    for (let k = 0; k < 3; k++) await new Promise((done) => requestAnimationFrame(done));
  };
  const text = (one) => one?.textContent ?? "";
  const one = (selector) => text(place.querySelector(selector));
  const all = (selector) => [...place.querySelectorAll(selector)];
  const facts = (selector) =>
    Object.fromEntries(all(selector).map((one) => [one.firstElementChild, one.lastElementChild].map(text)));
  const found = {};
  const look = {
    plan: () => {
      found.state = one("h1 + .state");
      found.ending = [".ending .state", ".ending .quiet", ".ending code"].map(one);
      found.facts = facts(".facts > div");
      found.boxes = all("[data-node]").map((one) => one.getAttribute("aria-label"));
      found.arrows = all(".arrow > title").map(text);
      found.failure = one(".failure .reason");
    },
    tree: async () => {
      all("button").find((one) => text(one) === "open all").click();
      await frames();
      found.tree = all("[data-turn]").map((one) => [one.dataset.turn, text(one.querySelector(".state"))]);
      if (!open) return;
      const row = all("[data-turn]").find((one) => one.dataset.turn === open.turn);
      row.click();
      await frames();
      const panel = one(".turn > .actions > .quiet").split(" · ").at(-2); // "attempt 2 · 3 s · $0.00"
      found.lasted = [text(row.querySelector(".number")), panel, facts(".facts > div").duration];
      found.lasts = [open.lasts, open.lasts, open.run].map(duration);
      history.back();
      await new Promise((done) => addEventListener("popstate", done, { once: true }));
    },
    records: () => found.records = all(".records .line").map((one) => text(one.lastElementChild)),
    cost: () => found.cost = facts(".cost .facts > div"),
  };
  try {
    for (const view of Object.keys(look)) {
      render(html`<${Run} key=${n + view} runKey=${"run " + n} view=${view} />`, place);
      await frames();
      await look[view]();
    }
    return found;
  } finally {
    render(null, place);
    place.remove();
    embedded.data = null;
    about.is_file = false;
  }
}"""

WORDS = {
    "pending": "not begun",
    "running": "working",
    "waiting": "waiting",
    "finished": "done",
    "failed": "failed",
    "cancelled": "cancelled",
    "interrupted": "interrupted",
    "cut off": "cut off",
}
"""The word of the page for each state."""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A page that can load the modules."""
    folder: Path = tmp_path_factory.mktemp("moments")
    with chromium() as browser:
        served = ServedPage(browser, folder)
        yield served.page()
        served.close()
        assert served.errors == []


def shown(page: Any, seed: int, runs: Runs, open: Any) -> Any:
    """What the page shows of the run, in its views, and of its *open* turn."""
    found = re.search(r'id="data">([^<]+)<', page_of(runs, RUN))
    assert found is not None
    return page.evaluate(SHOW, [seed, msgspec.json.decode(gzip.decompress(base64.b64decode(found[1]))), open])


def left_open(runs: Runs, tables: Any) -> dict[str, Any] | None:
    """A turn that has no end although no process drives the run, and how long that and the run lasted."""
    rows = tables["runs"]
    turns = [(key, one) for key, one in tables["turns"].items() if one["finished"] is None and not one["set"]]
    if runs.is_owned(RUN) or not turns:
        return None
    key, row = turns[-1]

    def lasted(run: str, began: float) -> float:
        last = max(one["at"] for id, one in rows.items() if id == run or id.startswith(f"{run}/"))
        return (rows[run]["finished"] or last) - began

    turn, run = key.removeprefix(f"{RUN}/"), row["run"]
    return {"turn": turn, "lasts": lasted(run, row["started"]), "run": lasted(RUN, rows[RUN]["started"])}


def money(usd: float) -> str:
    """As the page writes it."""
    return "$0.00" if usd == 0 else f"${usd:.4f}" if usd < 0.01 else f"${usd:.2f}"


def check(page: Any, seed: int) -> None:
    """Compare the page with `inspect`, view by view."""
    with ThreadPoolExecutor(1) as apart:  # the browser has a loop in this thread
        runs = apart.submit(moment, seed).result()
    tables, plan = views.plan(runs, RUN)
    found = shown(page, seed, runs, left_open(runs, views.live(runs, RUN)[0]))
    assert found.get("lasted") == found.get("lasts")
    root = tables["runs"][RUN]
    head, *_ = plan.splitlines()
    assert f", {found['facts']['turns']}" in head

    why = views.why_it_stands(runs, RUN)
    words = {"failed": "failed", "completed": "ended early" if why else "completed"}
    assert found["state"] == words.get(root["state"], root["words"])
    assert (f": {root['words']}, " in head) or root["words"].endswith("…")
    assert [*filter(None, found["ending"])] == [line.strip() for line in why.splitlines()]

    usage, _ = views.usage_by(runs, RUN, "role")
    cost, _ = views.cost(runs, RUN)
    total = usage["total"]
    assert abs(total.cost - cost.total.cost) < 1e-9
    assert found["facts"]["cost"].split(" of ")[0] == money(cost.total.cost) == found["cost"]["spent"]
    assert found["cost"]["attempts with usage"] == f"{cost.total.attempts:,}"
    assert found["cost"]["tokens in · out"] == f"{total.input_tokens:,} · {total.output_tokens:,}"

    begun = Counter(one.turn for one in runs.read(RUN) if isinstance(one, r.TurnStarted) and one.attempt == 1)
    nodes = {row["name"]: row for key, row in tables["nodes"].items() if key.rpartition("/")[0] == RUN}
    assert sum(row["starts"] for row in nodes.values()) == len(begun)
    for label, box in zip(found["boxes"], tables["teams"][""]["boxes"], strict=True):
        row = nodes[box["name"]]
        name, _, facts = label.partition(", ")
        assert name == box["name"] + (f" ×{row['starts']}" if row["starts"] > 1 and not row["items"] else "")
        assert WORDS[row["state"]] == (facts.rpartition(", ")[2] if row["items"] else facts.partition(" · ")[0])
        if row["items"]:
            assert f"{row['finished']} of {row['items']} done" in facts
    for label, arrow in zip(found["arrows"], tables["teams"][""]["arrows"], strict=True):
        fired = tables["arrows"].get(f"{RUN}/{arrow['index']}", {}).get("fired", 0)
        times = "has not fired" if not fired else "fired once" if fired == 1 else f"fired {fired} times"
        assert times in label
        assert label.startswith(f"{arrow['source']} to {arrow['target']}")

    turns = {f"{key}".removeprefix(f"{RUN}/"): row for key, row in views.live(runs, RUN)[0]["turns"].items()}
    states = dict(map(tuple, found["tree"]))
    sets = {f"{key.rpartition('/')[0]}/{row['set']}".lstrip("/") for key, row in turns.items() if row["set"]}
    assert states.keys() == turns.keys() | sets
    for turn, word in states.items():
        if turn in sets:
            continue  # its counts are those of the node
        known, _ = views.turn(runs, *_place(turn))
        live = turns[turn]["state"]  # the records of a turn alone do not tell that it waits, or is cut off
        assert word == WORDS[live if live in ("waiting", "cut off") else known["state"]]

    lines, _ = views.timeline(runs, RUN)
    texts = [line.text for line in lines]
    assert found["records"] == (
        texts[-len(found["records"]) :] if root["finished"] is None else texts[: len(found["records"])]
    )
    first, _ = views.failure(runs, RUN)
    is_shown = root["state"] == "failed" or (root["failed"] > 0 and root["state"] != "completed")
    assert found["failure"] == (first.reason if first is not None and is_shown else "")


def _place(turn: str) -> tuple[str, str]:
    below, _, id = turn.rpartition("/")
    return (f"{RUN}/{below}" if below else RUN), id


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_some_random_runs_are_shown_as_inspect_shows_them(page: Any, seed: int) -> None:
    """State, sentence, progress, cost, nodes, arrows, turns, records and the first failure."""
    check(page, seed)


@pytest.mark.slow
def test_a_run_that_was_stopped_and_then_killed_lasted_until_it_was_killed(page: Any) -> None:
    """Its first owner's end is not the run's; what was at work then lasts no longer than the run."""
    agent = AgentPlan(name="a", kind="agent", backend="scripted")
    plan = to_json(flow("a", a=agent)).decode()
    begun = [r.RunStarted(run=RUN, engine="flow", plan=plan), r.RunOwned(epoch=1), r.TurnStarted(turn="a#1", agent="a")]
    stopped = [r.AttemptInterrupted(turn="a#1", attempt=1, reason="interrupted"), r.RunStopped(reason="interrupted")]
    again = [r.RunOwned(epoch=2), r.TurnStarted(turn="a#1", agent="a", attempt=2)]
    records = [*begun, *stopped, *again]
    store = MemoryStore()
    store.fill(RUN, [replace(one, seq=n, at=40.0 * n) for n, one in enumerate(records, 1)])
    runs = Runs(Path("/nowhere"), store=store)
    found = shown(page, -1, runs, left_open(runs, views.live(runs, RUN)[0]))
    assert found["lasted"] == found["lasts"] == ["2 min 40 s", "2 min 40 s", "4 min"]


@pytest.mark.long
@pytest.mark.parametrize("part", range(16))
def test_400_random_runs_are_shown_as_inspect_shows_them(page: Any, part: int) -> None:
    """At random moments, with and without a process that drives them."""
    for seed in range(12 + part * 25, 12 + (part + 1) * 25):
        check(page, seed)
