"""`coterie chat`, `coterie threads` and `coterie run --thread`, as processes and at a terminal."""

import json
import os
import pty
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from command_line import Place
from fake_models import FakeModels, Say

from coterie.execution.runs.repository import Runs
from coterie.execution.runs.threads import Thread, ThreadRow
from coterie.history.journal.records import TurnFinished
from coterie.interfaces.cli.text.runs import threads

AGENT = r"""
prompt=$(cat)
case "$prompt" in *"please wait"*) : > waiting; exec sleep 600;; *"please fail") exit 1;; esac
echo "shown $(echo "$prompt" | grep -c '^## Message'), asked: $(echo "$prompt" | tail -1)"
"""
TEAM = """
topology talk : [pipeline] {
  agent friend {
    extensions { coterie { command: ["sh", "agent.sh"]  thread: true  timeout: 1h } }
  }
  flow { friend }
}
"""


@pytest.fixture
def talk(tmp_path: Path) -> Place:
    (tmp_path / "agent.sh").write_text(AGENT)
    (tmp_path / "talk.at").write_text(TEAM)
    os.mkfifo(tmp_path / "waiting")
    return Place(tmp_path)


def chat(talk: Place, *lines: str, status: int = 0, thread: str = "t") -> "subprocess.CompletedProcess[str]":
    """A chat whose messages are piped."""
    words = [sys.executable, "-m", "coterie", "chat", "talk.at", "--thread", thread]
    text = "".join(f"{line}\n" for line in lines)
    done = subprocess.run(words, cwd=talk.folder, input=text, text=True, capture_output=True, check=False)
    assert done.returncode == status, done
    return done


class Keyboard:
    """A chat at a terminal; what it prints is read until a text comes."""

    def __init__(self, talk: Place, terminal: str = "dumb") -> None:
        self._fd, line = pty.openpty()
        self.shown = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "coterie", "chat", "talk.at", "--thread", "t"],
            cwd=talk.folder,
            stdin=line,
            stdout=line,
            stderr=line,
            start_new_session=True,
            preexec_fn=_take_terminal,
            env={**os.environ, "TERM": terminal},
        )
        os.close(line)

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def until(self, text: str) -> str:
        """What came up to *text*."""
        while text not in self.shown:
            self.shown += os.read(self._fd, 65536).decode().replace("\r\n", "\n")
        before, _, self.shown = self.shown.partition(text)
        return before

    def end(self) -> int:
        """Leave, and return the status."""
        self.type("\x04")
        self.until("continue with: coterie chat talk.at --thread t")
        return self.process.wait()

    def __enter__(self) -> "Keyboard":
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._fd)


def _take_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.mark.slow
def test_five_messages_over_three_processes(talk: Place) -> None:
    """Each is shown those before it, whichever command sent them."""
    first = chat(talk, "a", "b")
    assert first.stdout == "shown 0, asked: a\nshown 1, asked: b\n"
    assert talk.call("run", "talk.at", "c", "--thread", "t").out == "shown 2, asked: c\n"
    assert chat(talk, "d", "e").stdout == "shown 3, asked: d\nshown 4, asked: e\n"

    [row] = json.loads(talk.look("threads", "--json").out)
    assert (row["name"], row["runs"], row["topology"], row["state"], row["prompt"]) == (
        "t",
        5,
        "talk",
        "completed",
        "e",
    )
    shown = talk.look("thread", "show", "t").out
    assert [line for line in shown.splitlines() if line in tuple("abcde")] == list("abcde")
    assert "shown 4, asked: e" in shown
    assert talk.call("thread", "rm", "t").out == "removed t; its runs stay\n"
    assert "no threads yet" in talk.look("threads").out
    assert len(json.loads(talk.look("runs", "--json").out)) == 5


@pytest.mark.slow
def test_a_chat_says_the_status_of_its_last_message(talk: Place) -> None:
    """A failed one is an end, and the chat goes on."""
    failed = chat(talk, "please fail", status=1)
    assert "failed" in failed.stderr
    assert "Traceback" not in failed.stderr
    assert chat(talk, "please fail", "b").stdout == "shown 2, asked: b\n"


@pytest.mark.slow
def test_a_message_is_interrupted_killed_continued_and_left_out(talk: Place) -> None:
    """Ctrl-C interrupts it; an empty line continues it, also in the next process; another message leaves it out."""
    waiting = talk.folder / "waiting"  # a pipe: opened once the agent opens its end
    with Keyboard(talk) as keyboard:
        keyboard.until("> ")
        keyboard.type("a\n")
        assert "shown 0, asked: a" in keyboard.until("> ")
        keyboard.type("please wait\n")
        waiting.read_text()
        keyboard.type("\x03")
        keyboard.until("“please wait” has no answer yet (stopped: interrupted")
        keyboard.until("> ")
        refused = talk.call("run", "talk.at", "b", "--thread", "t", status=1)
        assert "coterie resume" in refused.err
        keyboard.type("\n")
        waiting.read_text()
        os.kill(keyboard.process.pid, signal.SIGKILL)
    with Keyboard(talk) as keyboard:
        keyboard.until("“please wait” has no answer yet (cut off")
        keyboard.until("> ")
        keyboard.type("b\n")
        assert "shown 1, asked: b" in keyboard.until("> ")
        assert keyboard.end() == 0
    assert chat(talk, "c").stdout == "shown 2, asked: c\n"


@pytest.mark.slow
def test_a_chat_waits_for_a_message_of_another_process(talk: Place) -> None:
    """Ctrl-C takes the own message back; once the other one is not driven any more, it is refused and offered."""
    waiting = talk.folder / "waiting"
    other = talk.start("run", "talk.at", "please wait", "--thread", "t")
    waiting.read_text()
    with Keyboard(talk) as keyboard:
        keyboard.until("> ")
        keyboard.type("mine\n")
        keyboard.until("which is running; waiting for its end")
        keyboard.type("\x03")
        keyboard.until("coterie: not sent")
        keyboard.until("> ")
        keyboard.type("mine again\n")
        keyboard.until("which is running; waiting for its end")
        other.kill()
        other.communicate()
        keyboard.until("coterie: not sent: thread 't' goes on behind run")
        keyboard.until("“please wait” has no answer yet (cut off")
        keyboard.until("> ")
        keyboard.type("left out\n")
        assert "shown 0, asked: left out" in keyboard.until("> ")
        assert keyboard.end() == 0


@pytest.mark.slow
def test_pasted_lines_are_one_message(talk: Place) -> None:
    """Where the terminal marks what is pasted."""
    with Keyboard(talk, "xterm") as keyboard:
        keyboard.until("> ")
        keyboard.type("\x1b[200~one\rtwo\x1b[201~")
        keyboard.until("two")
        keyboard.type("\r")
        assert "shown 0, asked: two" in keyboard.until("> ")
        assert keyboard.end() == 0
    shown = talk.look("thread", "show", "t").out
    assert "\none\ntwo\n\nshown 0" in shown


@pytest.mark.parametrize("width", [120, 80, 60, 50])
def test_the_list_of_threads_fits_its_terminal(width: int) -> None:
    """A name is never shortened: it is what the next command needs."""
    name = "chat-20260101-120000-abcdef"
    row = ThreadRow(
        name=name, runs=12, topology="support-team", latest="r", state="stopped: waiting", at=0.0, prompt="word " * 40
    )
    lines = threads([row], width).splitlines()
    assert max(map(len, lines)) <= width
    assert name in lines[1]
    assert "stopped" in lines[1]


def test_a_thread_that_does_not_exist_is_named(talk: Place) -> None:
    """With the command that lists them."""
    for words in (("show", "x"), ("rm", "x")):
        assert "no thread 'x': `coterie threads` lists them" in talk.look("thread", *words, status=2).err
    assert "name it, as in --thread NAME" in talk.look("run", "talk.at", "a", "--wait", status=2).err


MIXED = """
topology mixed : [pipeline] {
  extensions { coterie { thread: true } }
  agent model { model: "claude-sonnet-5-5"  prompt: "Be kind."  extensions { coterie { backend: model } } }
  agent coder { extensions { coterie { backend: claude-sdk  command: [PYTHON, FAKE] } } }
  agent counter { extensions { coterie { type: "counting:count" } } }
  flow { coder -> model -> counter }
}
"""
COUNTING = '''
import coterie

def count(prompt: str, context: coterie.Context) -> str:
    """Say what came before."""
    return ", ".join(f"{one.prompt}={one.answer.count('=')}" for one in context.thread) or "nothing"
'''
WORDS = tuple(f"{word} recite" for word in ("first", "second", "third", "fourth", "fifth"))
"""The coding agent recites its prompt if that ends so."""


@pytest.mark.extras("claude")
@pytest.mark.slow
def test_three_processes_talk_to_a_model_a_coding_agent_and_a_function(tmp_path: Path) -> None:
    """Of two that write at once the second waits for the first and is shown its answers, each agent in its way."""
    fake = Path(__file__).parents[2] / "support" / "fake_agents" / "claude_agent.py"
    team = MIXED.replace("PYTHON", json.dumps(sys.executable)).replace("FAKE", json.dumps(str(fake)))
    (tmp_path / "talk.at").write_text(team)
    (tmp_path / "counting.py").write_text(COUNTING)
    talk, waits = Place(tmp_path), threading.Event()

    def reply(body: dict[str, Any]) -> Say:
        prompt = _texts(body["messages"])[-1][1]
        asked = next(one for one in WORDS if f"# Task\n\n{one}" in prompt)
        return Say(f"to {asked}", hold=waits.wait if asked in WORDS[3:] else None)

    with FakeModels(choose=reply) as models, pytest.MonkeyPatch.context() as patch:
        for name, value in models.environment.items():
            patch.setenv(name, value)
        chat(talk, *WORDS[:3])
        writers = [talk.start("run", "talk.at", word, "--thread", "t", "--wait") for word in WORDS[3:]]
        readers = [threading.Thread(target=_watch, args=(one, waits)) for one in writers]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        ended = [(one.communicate(), one.returncode) for one in writers]
        assert [status for _, status in ended] == [0, 0], ended
        sent = [_texts(body["messages"]) for body in models.requests]

    runs = Runs(tmp_path / ".coterie")
    order = [*reversed([*Thread(runs, "t").newest()])]
    starts = [runs.first(run) for run in order]
    said = [str(one.input["prompt"]) for one in starts]
    assert (said[:3], sorted(said[3:])) == ([*WORDS[:3]], sorted(WORDS[3:]))
    assert [one.thread and one.thread.after for one in starts] == ["", *order[:-1]]
    for k, messages in enumerate(sent):
        earlier = [(role, text) for one in said[:k] for role, text in (("user", one), ("assistant", f"to {one}"))]
        assert messages[:-1] == earlier
    answers = [{one.turn: one.text for one in runs.read(run) if isinstance(one, TurnFinished)} for run in order]
    assert answers[4]["counter#1"] == ", ".join(f"{one}={k}" for k, one in enumerate(said[:4]))
    for k, found in enumerate(answers):
        assert said[k] in found["coder#1"]
        assert not any(one in found["coder#1"] for one in said[:k]), "its session has what came before"
    assert [one.thread and one.thread.sessions for one in starts] == [{}, *[{"coder": "session-1"}] * 4]


def _watch(process: "subprocess.Popen[str]", waits: threading.Event) -> None:
    """Set *waits* once *process* waits for another one, or has ended."""
    for line in process.stderr or ():
        if "waiting for its end" in line and "running" in line:
            waits.set()
    waits.set()


def _texts(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The role and the text of each message of a request."""
    return [
        (
            one["role"],
            one["content"]
            if isinstance(one["content"], str)
            else "".join(part.get("text", "") for part in one["content"]),
        )
        for one in messages
    ]
