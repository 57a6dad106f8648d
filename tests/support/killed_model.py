"""A model's turn that is killed everywhere, and resumed: `python killed_model.py FOLDER API STORY [FIRST [STEP]]`.

Stories are what the turn has to go through. Each calls two tools at once, later another one, and gives an output:

    answers   the provider fails once, and an answer does not fit
    gate      a gate refuses an answer before the last tool was called
    quota     the quota is used up, and the run is retried
    retries   the provider limits the rate, then breaks its answer off within a call
    once      the tools are called at most once
    programs  the tools are programs, started by the built-in tool
    servers   the tools are those of an MCP server, the last one called at most once

Places are counted: before each request, before and after each line of the kept conversation and its removal, after each
sync of it and each append to the journal, in each function, and at each piece of a streamed answer. A line of JSON for
each run; the first has no kill. Every execution is a process of its own, forked once all is loaded; it dies by SIGKILL.
"""

import asyncio
import json
import os
import re
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import killed
import unsynced
from fake_models import FakeModels, Refuse, Reply, Say

import coterie
from coterie.agents.backends import once
from coterie.agents.backends.models import steps
from coterie.agents.backends.models.conversation import Conversation
from coterie.agents.backends.models.library import load
from coterie.execution.kernel import retries
from coterie.execution.runs.attempt_folders import AttemptFolders
from coterie.history.journal.writer import JsonlWriter

MODELS = {"anthropic": "claude-sonnet-5-5", "openai": "gpt-5"}
LEDGER = Path("ledger")
LEFT = [0]
NO_KILL = threading.RLock()
"""Held while something is done and noted: a tool's thread does not end the process between the two."""


def note(what: str) -> None:
    """Write *what* down at once: a line survives the process."""
    with open(LEDGER, "a", encoding="utf-8") as ledger:
        ledger.write(f"{what}\n")


def place() -> None:
    """Die here if this is the place."""
    with NO_KILL:
        LEFT[0] -= 1
        if LEFT[0] == 0:
            killed.die()


def pay(euros: int) -> str:
    """Pay."""
    place()
    note(f"pays {euros}")
    place()
    return f"paid {euros}"


@once
def pay_once(euros: int) -> str:
    """Pay, at most once."""
    return pay(euros)


GATE = ["sh", "-c", "grep -q 'pays 3' ledger || { echo 'pay 3, too'; exit 1; }"]
SERVER = str(Path(__file__).with_name("paying_server.py"))
FUNCTION = 'tools: ["killed_model:pay"]'
STORIES = {
    "answers": ("", FUNCTION),
    "gate": ("", f"{FUNCTION}  gates: [{json.dumps(GATE)}]"),
    "quota": ("", FUNCTION),
    "retries": ("", FUNCTION),
    "once": ("", 'tools: ["killed_model:pay_once"]'),
    "programs": ("tools: [Bash]", 'once: ["Bash"]'),
    "servers": ("mcp-servers: [bank]", 'once: ["mcp.bank.pay_*"]'),
}
"""What is in the agent, and in its extension."""
TEAM = """topology payments : [pipeline] {
  mcp-servers { bank { command: "PYTHON"  args: ["SERVER"] } }
  settings { allow: ["Bash(sh *)"] }
  extensions { coterie { backend: model  provider: API  retry: 3 } }
  agent payer { model: "MODEL"  prompt: "Pay."  outputs { total: number }  OWN  extensions { coterie { EXTENSION } } }
  flow { payer }
}
"""


def call(story: str, euros: int) -> tuple[str, dict[str, Any]]:
    """The call of a tool that pays."""
    match story:
        case "programs":
            return "Bash", {"command": f"sh -c 'echo pays {euros} >> ledger; echo paid {euros}'"}
        case "servers":
            return ("bank_pay_once" if euros == 3 else "bank_pay"), {"euros": euros}
    return ("pay_once" if story == "once" else "pay"), {"euros": euros}


def choose(folder: Path, story: str) -> Callable[[dict[str, Any]], Reply]:
    """A provider that answers by what has been said, and notes each request with how often it has answered before."""
    failed: Counter[str] = Counter()
    done = Say("Done.", calls=[("give_outputs", {"total": 6})])
    rest = {
        "answers": [Say("No total."), Say(calls=[call(story, 3)])],
        "gate": [Say(calls=[("give_outputs", {"total": 3})]), Say(calls=[call(story, 3)])],
    }.get(story, [Say(calls=[call(story, 3)])])
    failures: list[Reply] = {
        "answers": [Refuse(503, "overloaded_error", "later")],
        "quota": [Refuse(402, "billing_error", "your credit is used up")],
        "retries": [
            Refuse(429, "rate_limit_error", "slowly", {"retry-after": "0"}),
            Say("I am", calls=[call(story, 3)], drop=4),
        ],
    }.get(story, [])
    replies = [Say("I pay.", calls=[call(story, 1), call(story, 2)]), *rest, done]

    def answer(body: dict[str, Any]) -> Reply:
        said = sum(one["role"] == "assistant" for one in body["messages"])
        name = (folder / "now").read_text()
        with open(folder / name / LEDGER, "a", encoding="utf-8") as ledger:
            ledger.write(f"asked {said}\n")
        if said == 1 and failed[name] < len(failures):
            failed[name] += 1
            return failures[failed[name] - 1]
        return replies[min(said, len(replies) - 1)]

    return answer


def watched(method: Any, before: bool = False, kept: bool = False) -> Any:
    """*method*, with a place after it, and *before* it; *kept*: note what is on disk from now on."""

    def call(self: Any, *given: Any) -> Any:
        if before:
            place()
        with NO_KILL:
            result = method(self, *given)
            if kept and isinstance(given[0], steps.ResultLine):
                note(f"kept {' '.join(re.findall(r'paid .', str(given[0].value)))}")
            if kept and isinstance(given[0], steps.AnswerLine):
                note("answered")
        place()
        return result

    return call


def awaited(method: Any, before: bool = False) -> Any:
    """The coroutine function *method*, with a place after it, or *before* it."""

    async def call(*given: Any) -> Any:
        if before:
            place()
        result = await method(*given)
        if not before:
            place()
        return result

    return call


def arm(n: int) -> None:
    """Count the places, and die at the *n*-th; 0: nowhere."""
    LEFT[0] = n
    steps.Steps.append = watched(steps.Steps.append, before=True, kept=True)  # type: ignore[method-assign]
    steps.Steps.sync = awaited(steps.Steps.sync)  # type: ignore[method-assign]
    JsonlWriter.append = watched(JsonlWriter.append)  # type: ignore[method-assign]
    AttemptFolders.forget = watched(AttemptFolders.forget, before=True)  # type: ignore[method-assign]
    Conversation._received = watched(Conversation._received)  # type: ignore[method-assign]
    Conversation._refuse = awaited(Conversation._refuse, before=True)  # type: ignore[method-assign]


def team(api: str, story: str) -> str:
    """One agent with tools that pay and an output."""
    own, extension = STORIES[story]
    words = {"PYTHON": sys.executable, "SERVER": SERVER, "API": api, "MODEL": MODELS[api], "OWN": own}
    text = TEAM
    for name, value in (words | {"EXTENSION": extension}).items():
        text = text.replace(name, value)
    return text


async def settled(work: Path, api: str, story: str, id: str) -> coterie.Outcome[Any]:
    """The outcome of the run *id*, which is begun or goes on; retried, if it failed."""
    journal = work / "state" / "runs" / id / "journal.jsonl"
    lines = [line for line in journal.read_text().splitlines() if line.strip()] if journal.exists() else []
    if lines and '"run.finished"' not in lines[-1]:
        outcome = await coterie.resume(id, state_dir=work / "state")
    else:
        outcome = await coterie.run(team(api, story), "Pay.", state_dir=work / "state", id=id)
    if outcome.status == "failed":
        outcome = await coterie.resume(outcome.run, retry=True, state_dir=work / "state")
    return outcome


def execute(work: Path, api: str, story: str, n: int, id: str) -> int:
    """Run or resume in a fork that dies at the *n*-th place; return its wait status."""
    if child := os.fork():
        return os.waitpid(child, 0)[1]
    status = 1
    try:
        os.chdir(work)
        arm(n)
        outcome = asyncio.run(settled(work, api, story, id))
        outputs = json.dumps(outcome.result["outputs"])
        (work / "outcome").write_text(f"{outcome.status} {outputs} {outcome.usage.input_tokens}")
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def play(folder: Path, api: str, story: str, n: int) -> dict[str, Any]:
    """Report how the run ended that was killed at the *n*-th place."""
    name, id = f"{api}-{n}", uuid4().hex
    work = folder / name
    work.mkdir()
    (folder / "now").write_text(name)
    died = os.WIFSIGNALED(status := execute(work, api, story, n, id))
    if died:
        status = execute(work, api, story, 0, id)
    outcome = work / "outcome"
    return {
        "n": n,
        "died": died,
        "exit": status,
        "outcome": outcome.read_text() if outcome.exists() else "",
        "ledger": (work / LEDGER).read_text().splitlines(),
        "left": [str(path) for path in work.rglob(steps.STEPS)],
    }


def main(folder: Path, api: str, story: str, first: int = 1, step: int = 1) -> None:
    unsynced.apply()
    load("conversation", api, *(["servers"] if story == "servers" else []))
    retries._backoff = lambda failures: 0.0  # type: ignore[assignment]
    sys.modules["killed_model"] = sys.modules["__main__"]
    with FakeModels(choose=choose(folder, story)) as models:
        os.environ.update(models.environment)
        print(json.dumps(play(folder, api, story, 0)), flush=True)
        n, died = first, True
        while died:
            report = play(folder, api, story, n)
            print(json.dumps(report), flush=True)
            n, died = n + step, report["died"]


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:4], *map(int, sys.argv[4:]))
