import asyncio
import os
import pty
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO

import msgspec
import pytest

from coterie.agents.backends.base import Request
from coterie.history.views.attention import Attention
from coterie.interfaces.cli import output, terminal
from coterie.interfaces.cli.terminal import Terminal
from coterie.interfaces.cli.text.attention import answer_of
from coterie.team.planning.plan import AgentPlan, Wanted


class Pseudo:
    """A pseudo-terminal: what is typed into it, and whether a question holds it."""

    def __init__(self) -> None:
        self.keyboard, self.line = pty.openpty()
        self.held = 0
        self.taken, self.freed = asyncio.Event(), asyncio.Event()
        self.terminal = Terminal(self.aside, self.line)

    def type(self, text: str) -> None:
        os.write(self.keyboard, text.encode())

    @contextmanager
    def aside(self) -> Iterator[None]:
        self.held += 1
        self.taken.set()
        try:
            yield
        finally:
            self.held -= 1
            self.freed.set()


@pytest.fixture
def pseudo() -> Iterator[Pseudo]:
    made = Pseudo()
    yield made
    os.close(made.keyboard)
    os.close(made.line)


def request(*outputs: Wanted, turn: str = "boss#1") -> Request:
    agent = AgentPlan(name="boss", kind="human", outputs=outputs)
    return Request(run="r1", turn=turn, attempt=1, agent=agent, prompt="Shall we?")


def test_a_line_at_the_terminal_is_the_answer(pseudo: Pseudo, capsys: pytest.CaptureFixture[str]) -> None:
    """The question is shown, and the terminal is free again afterwards."""
    pseudo.type("Yés, go\n")

    assert asyncio.run(pseudo.terminal.ask(request())) == "Yés, go"
    shown = capsys.readouterr().err
    assert "boss#1" in shown
    assert "Shall we?" in shown
    assert pseudo.held == 0


def test_each_wanted_output_is_asked_for_until_it_fits(pseudo: Pseudo, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing, and what is no member of an enum, is no answer; the lines are what a reply's outputs are read from."""
    verdict = Wanted(name="verdict", type="enum", values=("approve", "revise"))
    pseudo.type("Fine\n\nperhaps\napprove\n7\n")

    answer = asyncio.run(pseudo.terminal.ask(request(verdict, Wanted(name="score", type="number"))))

    assert answer == "Fine\nverdict: approve\nscore: 7"
    shown = capsys.readouterr().err
    assert shown.count("verdict (approve | revise): ") == 3
    assert shown.count("score (number): ") == 1


def test_a_question_that_is_called_off_leaves_the_terminal(pseudo: Pseudo) -> None:
    """What is typed next belongs to the next question."""

    async def main() -> str:
        first = asyncio.create_task(pseudo.terminal.ask(request()))
        await pseudo.taken.wait()
        second = asyncio.create_task(pseudo.terminal.ask(request(turn="boss#2")))
        await asyncio.sleep(0)
        assert pseudo.held == 1
        first.cancel()
        await pseudo.freed.wait()
        pseudo.type("for the second\n")
        return await second

    assert asyncio.run(main()) == "for the second"


def test_the_end_of_the_input_leaves_the_question_open(pseudo: Pseudo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-D is no answer: the inbox can still bring one, and the user is told so."""
    told = asyncio.Event()
    monkeypatch.setattr(terminal, "complain", lambda text: told.set() if "coterie control respond" in text else None)

    async def main() -> bool:
        asking = asyncio.create_task(pseudo.terminal.ask(request()))
        await pseudo.taken.wait()
        pseudo.type("\x04")
        await told.wait()
        return not asking.done() and asking.cancel()

    assert asyncio.run(main())


VERDICT = Wanted(name="verdict", values=("approve", "revise"), declared=False)


def test_an_output_may_be_typed_with_its_name(pseudo: Pseudo, capsys: pytest.CaptureFixture[str]) -> None:
    """A text first, then `verdict: approve`; before that, a value that no condition knows is refused with a reason."""
    pseudo.type("Fine\naprove\nverdict: approve\n")

    assert asyncio.run(pseudo.terminal.ask(request(VERDICT))) == "Fine\nverdict: approve"
    assert "no condition compares verdict with 'aprove'" in capsys.readouterr().err


@pytest.mark.parametrize("line", ["approve", "verdict: approve", "**Verdict:** approve"])
def test_an_output_that_the_first_line_holds_is_not_asked_for_again(pseudo: Pseudo, line: str) -> None:
    """One line is enough where it says it all."""
    pseudo.type(f"{line}\n")

    assert asyncio.run(pseudo.terminal.ask(request(VERDICT))) == line


def test_a_question_answered_elsewhere_is_taken_down(pseudo: Pseudo, capsys: pytest.CaptureFixture[str]) -> None:
    """The screen says so on a line of its own, instead of going on behind the prompt."""

    async def main() -> None:
        asking = asyncio.create_task(pseudo.terminal.ask(request()))
        await pseudo.taken.wait()
        await asyncio.sleep(0)
        asking.cancel()
        await pseudo.freed.wait()

    asyncio.run(main())
    assert capsys.readouterr().err.endswith("> \n(boss#1 no longer waits for an answer here)\n")


WISH = Attention(
    kind="permission",
    run="r1",
    id="a#1?1",
    turn="a#1",
    since=0.0,
    text="a#1 asks for permission: Bash (make test)",
    answers=("allow", "deny", "park", "fail"),
    command="coterie attention r1 'a#1?1' allow|deny|park|fail",
)
STALL = msgspec.structs.replace(WISH, kind="stall", answers=("wait", "interrupt"))


@pytest.mark.parametrize(
    ("typed", "wish", "answer"),
    [("y\n", WISH, "allow"), ("n\n", WISH, "deny"), ("park\n", WISH, "park"), ("\ny\nwait\n", STALL, "wait")],
)
def test_a_permission_is_answered_at_the_terminal(
    pseudo: Pseudo, capsys: pytest.CaptureFixture[str], typed: str, wish: Attention, answer: str
) -> None:
    """By a letter or a word; what is no answer is asked again."""
    pseudo.type(typed)

    assert asyncio.run(pseudo.terminal.approve(wish)) == answer
    shown = capsys.readouterr().err
    assert "a#1 asks for permission: Bash (make test)" in shown
    assert shown.count("y once" if wish is WISH else "answer ") == typed.count("\n")
    assert pseudo.held == 0


def test_a_permission_that_is_answered_elsewhere_leaves_the_terminal(
    pseudo: Pseudo, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is typed next belongs to the next question; nothing is printed over the one that is shown."""

    async def main() -> str:
        first = asyncio.create_task(pseudo.terminal.approve(WISH))
        await pseudo.taken.wait()
        second = asyncio.create_task(pseudo.terminal.ask(request()))
        await asyncio.sleep(0)
        assert "boss#1" not in capsys.readouterr().err
        first.cancel()
        await pseudo.freed.wait()
        pseudo.type("for the second\n")
        return await second

    assert asyncio.run(main()) == "for the second"
    assert "(a#1?1 no longer waits for an answer here)" in capsys.readouterr().err


PERMISSION = Attention(
    kind="permission", run="r", id="a#1?1", since=0.0, text="", command="", answers=("allow", "always", "deny", "park")
)
STALL = Attention(kind="stall", run="r", id="a#1!1", since=0.0, text="", command="", answers=("wait", "interrupt"))


@pytest.mark.parametrize(
    ("asked", "line", "answer"),
    [
        (PERMISSION, " Y\n", "allow"),
        (PERMISSION, "Deny use  make \n", "deny use  make"),
        (PERMISSION, "n use make", "deny use make"),
        (PERMISSION, "a", "always"),
        (PERMISSION, "yes please", ""),
        (PERMISSION, "park it", ""),
        (PERMISSION, "p", ""),
        (PERMISSION, "", ""),
        (STALL, "WAIT", "wait"),
        (STALL, "y", ""),
        (STALL, "interrupt now", ""),
    ],
)
def test_a_line_is_an_answer_only_if_all_of_it_is(asked: Attention, line: str, answer: str) -> None:
    """A text is for a refusal; what else follows an answer may have meant another."""
    assert answer_of(asked, line) == answer


@pytest.mark.parametrize(
    ("line", "yes"),
    [("y\n", True), ("Yes \n", True), ("\n", False), ("", False), ("n\n", False), ("yesterday\n", False)],
)
def test_only_a_yes_confirms(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str, yes: bool
) -> None:
    """Not the Enter key, nor the end of the input."""
    monkeypatch.setattr("sys.stdin", StringIO(line))
    assert output.confirm("Delete it?") is yes
    assert capsys.readouterr().err == "Delete it? [y/N] "
