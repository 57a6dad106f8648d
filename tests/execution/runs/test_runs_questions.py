"""What the agents of a killed system have asked: with its message, a question has its answer, once."""

import json
from collections import Counter
from pathlib import Path

import preforked
import pytest

from coterie.execution.kinds.systems.questions import Questions
from coterie.history.journal.records import CallAsked, RunOwned, TurnCancelled, TurnFailed, TurnFinished

STAMP = """#!/bin/sh
cat >/dev/null
echo "$COTERIE_TURN" >>"{here}/ledger"
echo "$COTERIE_TURN"
"""
SYSTEM = """
supervision:
  name: root
  children:
    - agent: {{name: desk, type: desk.Desk}}
    - agent: {{name: clerk, type: desk.Clerk}}
    - command: {{name: stamp, argv: ["{here}/stamp.sh"]}}
    - flow: {{name: team, source: team.at}}
entry: desk
"""
TEAM = """
topology team : [pipeline] {
  agent first { extensions { coterie { ask: "clerk" } } }
  agent second { extensions { coterie { ask: "clerk" } } }
  flow { first -> second }
}
"""
DESK = """
import asyncio

from coterie import AgentProcess


class Desk(AgentProcess):
    async def handle(self, message):
        mine = [(await self.ask("stamp", "x", timeout=None)).payload["text"] for _ in range(2)]
        both = await asyncio.gather(*(self.ask("clerk", "x", timeout=None) for _ in range(2)))
        team = await self.ask("team", "x", timeout=None)
        return self.reply(" ".join([*mine, *(one.payload["text"] for one in (*both, team))]))


class Clerk(AgentProcess):
    async def handle(self, message):
        stamped = await self.ask("stamp", "x", timeout=None)
        return self.reply({"text": stamped.payload["text"].strip()})
"""
STAMPS = 6


def make(folder: Path) -> None:
    for name, text in {"topology.yaml": SYSTEM, "stamp.sh": STAMP}.items():
        (folder / name).write_text(text.format(here=folder))
    (folder / "stamp.sh").chmod(0o755)
    (folder / "team.at").write_text(TEAM)
    (folder / "desk.py").write_text(DESK)
    (folder / "ledger").touch()


def stamped(folder: Path) -> Counter[str]:
    return Counter((folder / "ledger").read_text().split())


@pytest.mark.slow
@pytest.mark.parametrize("kill", [*range(14, 46, 8), *(pytest.param(n, marks=pytest.mark.long) for n in range(8, 46))])
def test_a_killed_system_asks_no_finished_question_again(tmp_path: Path, kill: int) -> None:
    """Neither its entry, nor an agent that this one asked, nor one that a flow asked; the answer is the same."""
    make(tmp_path)
    words, before = ("run", "topology.yaml", "go"), Counter[str]()
    while (dead := preforked.run(*words, cwd=tmp_path, kill=f"append:{kill}")).returncode == -9:
        before, words, kill = (
            stamped(tmp_path),
            ("resume", "last"),
            kill + 1,
        )  # an owner that gets as far each time goes on
    assert dead.returncode == 0, dead.stderr

    assert before
    assert dead.stdout.split() == [f"stamp#{n}" for n in (1, 2, 3, 4, 6)]
    found = stamped(tmp_path)
    assert len(found) == STAMPS
    [path] = tmp_path.glob(".coterie/runs/*/journal.jsonl")
    records = [json.loads(line) for line in path.read_text().splitlines()]
    cut = Counter(one["turn"] for one in records if one["topic"] == "attempt.interrupted")
    assert found <= Counter({turn: 1 + cut[turn] for turn in found})


def asked(number: int, origin: str, prompt: str = "x") -> CallAsked:
    return CallAsked(turn=f"stamp#{number}", agent="stamp", given={"prompt": prompt}, origin=origin)


def test_an_answer_is_given_once_and_only_to_the_same_question() -> None:
    """The number, the recipient and the payload are the same; a question that was dropped has no answer."""
    questions, answer = Questions(), TurnFinished(turn="stamp#1", attempt=1, text="yes")
    failure = TurnFailed(turn="stamp#4", kind="failed", reason="no")
    calls = [asked(1, "input/1"), asked(2, "input/2", "y"), asked(3, "input/3"), asked(4, "input/4"), asked(5, "")]
    ends = [answer, TurnCancelled(turn="stamp#3", reason="dropped"), failure]
    questions.read([*calls, *ends, RunOwned(epoch=2), asked(6, "input/1")], 2)

    def again(origin: str, agent: str = "stamp") -> object:
        found = questions.again(origin, "node", agent, {"prompt": "x"})
        return found and (found.end or found.turn)

    assert [again(f"input/{n}") for n in (1, 1, 2, 3, 4)] == [answer, None, None, None, failure]
    assert again("") is None
    questions.read(calls, 2)
    assert again("input/1", "other") is None


def test_a_message_that_another_process_handles_again_has_the_answers_too() -> None:
    """In a process that lives, `on_error` may handle a message again because of an answer: then it asks anew."""
    questions, answer = Questions(), TurnFinished(turn="stamp#1", attempt=1, text="yes")
    questions.asked(asked(1, "m/1"), "first")
    assert questions.again("m/1", "second", "stamp", {"prompt": "x"}) is None
    questions.ended(answer)

    assert questions.again("m/1", "first", "stamp", {"prompt": "x"}) is None
    found = questions.again("m/1", "second", "stamp", {"prompt": "x"})
    assert found is not None
    assert found.end is answer
    assert questions.again("m/1", "second", "stamp", {"prompt": "x"}) is None
