"""Messages to people who do not watch: each question, spent quota and end once, with the line that answers it."""

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from asking_team import make_asking
from command_line import Place
from msgspec.structs import replace
from until import until

from coterie.agents.backends.processes import alive, started
from coterie.execution.kernel.owner import Observers
from coterie.execution.runs import authority, notifications, notify_process
from coterie.execution.runs.notifications import marker
from coterie.execution.runs.repository import Runs, find
from coterie.history.journal import records as r
from coterie.team.formats.settings_locations import own_file, user_file
from coterie.team.planning.plan import Plan

QUOTA = """topology q : [pipeline] {
  agent a { model: m  extensions { coterie { backend: command  command: ["sh", "-c",
    "cat >/dev/null; echo 'Claude usage limit reached, try again in 2 hours' >&2; exit 1"] } } }
  flow { a }
}
"""


class Hook:
    """A webhook: keeps what is posted, and answers with *status* once it may.

    Attributes:
        posted: The bodies, in order.
    """

    def __init__(self) -> None:
        self.posted: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.status, self.answers, self.asked = 200, threading.Event(), threading.Event()
        self.answers.set()
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                hook.posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                hook.keys.append(self.headers["Idempotency-Key"])
                hook.asked.set()
                hook.answers.wait(30)
                self.send_response(hook.status)
                self.send_header("Location", "/elsewhere")
                self.end_headers()

            def log_message(self, *words: object) -> None:
                """Print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/secret-path"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def events(self) -> list[str]:
        return [one["event"] for one in self.posted]

    def close(self) -> None:
        self.answers.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook()
    yield made
    made.close()


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def mine(**settings: object) -> None:
    """Write the user's own settings."""
    lines = (f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
    write(user_file(os.environ), f"[notify]\n{''.join(lines)}")


def kept(path: Path) -> list[dict[str, Any]]:
    """The messages that a program was given."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def program(path: Path) -> list[str]:
    return ["sh", "-c", f"cat >> {path}; echo >> {path}"]


def sent(place: Place, run: str = "last") -> int:
    """How many messages of a run were claimed."""
    runs, run = find(run, place.folder / ".coterie")
    return len([*(runs.folder(run) / "notified").glob("*")])


@pytest.mark.slow
def test_a_question_and_the_end_are_sent_once_each_however_often_the_run_is_resumed(place: Place, hook: Hook) -> None:
    """By each channel, with the text of the question and the line that answers it; a stop that waits says no more."""
    told = place.folder / "told.jsonl"
    mine(webhook=hook.url, command=program(told))
    place.look("run", "human.at", "Ship it?", "--park", status=4)
    until(lambda: hook.events() == ["question"] and len(kept(told)) == 1)
    [one] = hook.posted
    run = one["run"]
    assert one["answer"] == f"coterie control respond {run} 'boss#1' TEXT"
    assert one["what"].startswith("boss#1 asks: ")
    assert "Ship it?" in one["what"]
    assert one["text"].split("\n")[0] == "human: asks a question"
    assert one["text"].endswith(one["answer"])
    assert {**one, **kept(told)[0]} == one

    for _ in range(2):
        place.look("resume", "last", "--park", status=4)
    place.look("control", "respond", "last", "approve", "--output", "verdict=approve")
    place.look("resume", "last")
    until(lambda: len(hook.posted) == 2 and len(kept(told)) == 2)
    assert hook.events() == ["question", "end"]
    assert (hook.posted[1]["status"], hook.posted[1]["what"]) == ("completed", f"run {run} completed")
    assert [one["event"] for one in kept(told)] == ["question", "end"]
    assert sent(place) == 4
    assert len(set(hook.keys)) == 2


@pytest.mark.slow
def test_what_an_owner_could_not_send_before_it_died_is_sent_by_the_next(place: Place, hook: Hook) -> None:
    """A question on record counts, and what was sent does not count again."""
    place.look("run", "human.at", "Ship it?", "--park", status=4)  # without settings, as if it had been killed
    assert sent(place) == 0
    mine(webhook=hook.url)
    place.look("resume", "last", "--park", status=4)
    until(lambda: hook.events() == ["question"])
    place.look("resume", "last", "--park", status=4)
    assert sent(place) == 1


@pytest.mark.extras("acp")
@pytest.mark.slow
def test_a_permission_in_a_child_run_is_sent_over_a_kill(place: Place, hook: Hook) -> None:
    """That of the killed attempt is void: the one that is tried again asks under another id, and is sent, too."""
    mine(webhook=hook.url)
    running = place.start("run", make_asking(place.folder, 3), "go")
    until(lambda: hook.events() == ["permission"])
    running.kill()
    running.communicate()
    resumed = place.start("resume", "last")
    until(lambda: hook.events() == ["permission", "permission"])
    first, second = hook.posted
    below = "inner#1.1/inner#1.1/coder#1?"
    assert [f"'{below}{n}' allow|" in one["answer"] for n, one in ((1, first), (2, second))] == [True, True]
    assert second["answers"] == ["allow", "always", "project", "deny", "park", "fail"]
    assert place.call("attention", "last", "deny", "-m", "use make build").out.endswith(": accepted\n")
    _, err = resumed.communicate(timeout=60)
    assert resumed.returncode == 0, err
    assert "deny, “use make build”" in err
    until(lambda: hook.events() == ["permission", "permission", "end"])


@pytest.mark.slow
def test_a_webhook_that_never_answers_delays_nothing(place: Place, hook: Hook) -> None:
    """The run is over while it still waits; what it answers then is in the folder of the run, without its address."""
    mine(webhook=hook.url)
    hook.answers.clear()
    place.look("run", "loop.at", "go")
    assert hook.asked.wait(30)
    runs, run = find("last", place.folder / ".coterie")
    [claim] = (runs.folder(run) / "notified").iterdir()
    assert claim.read_text() == ""
    hook.status = 404
    hook.answers.set()
    until(lambda: claim.read_text() == "the webhook answered 404 Not Found")
    assert claim.stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
def test_a_redirect_is_not_followed_and_a_failure_is_said_with_the_next_end(place: Place, hook: Hook) -> None:
    """The message is for the address that the operator wrote; a problem costs the run nothing."""
    mine(webhook=hook.url)
    hook.status = 307
    place.look("run", "human.at", "go", "--park", status=4)
    runs, run = find("last", place.folder / ".coterie")
    folder = runs.folder(run) / "notified"
    until(lambda: [one.read_text() for one in folder.glob("*")] == ["the webhook answered 307 Temporary Redirect"])
    said = place.look("resume", "last", "--park", status=4)
    assert "notify.webhook: the webhook answered 307 Temporary Redirect" in said.err
    assert len(hook.posted) == 1


@pytest.mark.slow
def test_secrets_reach_no_message(place: Place, hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither those of the environment in a question nor the address in a problem; it may be a variable itself."""
    monkeypatch.setenv("SERVICE_TOKEN", "tok-123456789")
    monkeypatch.setenv("HOOK_URL", hook.url)
    mine(webhook="${HOOK_URL}")
    place.look("run", "human.at", "Use tok-123456789 and go", "--park", status=4)
    until(lambda: hook.events() == ["question"])
    assert "Use *** and go" in hook.posted[0]["what"]
    assert "tok-123456789" not in json.dumps(hook.posted)
    journal = next((place.folder / ".coterie").rglob("journal.jsonl")).read_text()
    assert hook.url not in journal

    monkeypatch.delenv("HOOK_URL")
    said = place.look("run", "loop.at", "go")
    assert "notify.webhook names HOOK_URL, which is not set: nothing is sent to it" in said.err
    mine(webhook="file:///etc/passwd")
    assert "notify.webhook is not an address that begins with https://" in place.look("run", "loop.at", "go").err


@pytest.mark.slow
def test_a_spent_quota_is_sent_once(place: Place, hook: Hook) -> None:
    """With the line that goes on when it opens; a resume that finds it still spent sends nothing."""
    (place.folder / "q.at").write_text(QUOTA)
    mine(webhook=hook.url)
    place.look("run", "q.at", "go", status=3)
    until(lambda: hook.events() == ["quota"])
    assert hook.posted[0]["answer"].startswith("coterie resume --when-open ")
    place.look("resume", "last", status=3)
    assert sent(place) == 1


@pytest.mark.slow
def test_no_file_of_a_repository_says_where_messages_go(place: Place) -> None:
    """Of flows only the user's own files do, those for the project too; of a loop's files only its command counts."""
    sprung, told = place.folder / "sprung", place.folder / "told.jsonl"
    trap = f'notify.command = ["touch", "{sprung}"]\nnotify.desktop = true\nnotify.webhook = "http://127.0.0.1:9/"\n'
    for name in ("autoloops.toml", ".autoloop/overrides/human.toml", ".autoloop/config.toml", ".coterie/config.toml"):
        write(place.folder / name, trap)
    write(own_file(place.folder, os.environ), f"[notify]\ncommand = {json.dumps(program(told))}\n")
    place.look("run", "human.at", "go", "--park", status=4)
    until(lambda: [one["event"] for one in kept(told)] == ["question"])
    assert not sprung.exists()
    assert sent(place) == 1

    with pytest.MonkeyPatch.context() as patch:  # nor does a home that the agents work in
        patch.setenv("XDG_CONFIG_HOME", str(place.folder / "config"))
        mine(command=["touch", str(sprung)])
        write(own_file(place.folder, os.environ), f"[notify]\ncommand = {json.dumps(program(sprung))}\n")
        said = place.look("run", "human.at", "go", "--park", status=4)
        assert "your settings lie where agents work, and are not read" in said.err
        assert sent(place) == 0
    shown = place.look("config", "show", status=1).err
    assert "autoloops.toml:2:1: error[bad-setting]: notify.desktop counts only in your own files" in shown
    assert "notify.webhook=… --user` sets it" in shown


def test_two_processes_send_a_message_once(tmp_path: Path) -> None:
    """The first claims it by a file; another message, or another channel, has another one."""
    one, other = (Path(f"{marker(tmp_path, 'question', 'r', name, '')}.command") for name in ("a#1", "a#2"))
    assert one != other
    assert one.parent == tmp_path / "notified"
    claim = notify_process.claimed(one)
    assert claim is not None
    os.close(claim)
    assert notify_process.claimed(one) is None


def test_what_a_program_of_notify_leaves_behind_is_ended(tmp_path: Path) -> None:
    """It ends well, fails, or takes too long: its background processes go with it."""
    for then, within in (("true", 30.0), ("exit 3", 30.0), ("sleep 600", 0.2)):
        left = tmp_path / "left"
        script = f"sleep 600 >{os.devnull} 2>&1 & echo $! > part && mv part left; {then}"
        notify_process.call(("sh", "-c", script), b"", tmp_path, within)
        if left.exists():  # else the shell was ended before it had started anything
            pid = int(left.read_text())
            until(lambda pid=pid: not alive(pid, started(pid)))
            left.unlink()
        else:
            assert then == "sleep 600", then


def test_the_desktop_shows_plain_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an agent wrote is neither an option nor markup of the program, and has no control characters."""
    shown = tmp_path / "shown"
    tool = tmp_path / "bin" / "notify-send"
    write(tool, f"#!/bin/sh\nprintf '%s\\n' \"$@\" > {shown}\n")
    tool.chmod(0o755)
    message = notify_process.Notification(
        marker="", cwd="/", title="--help\x1b[31m", what="<b>a</b> & b\nc", answer="coterie attention r", document={}
    )
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    assert notify_process._desktop(message) == ""
    name, dashes, title, *body = shown.read_text().split("\n")
    assert (name, dashes, title) == ("--app-name=coterie", "--", "--help\\x1b[31m")
    assert body == ["&lt;b&gt;a&lt;/b&gt; &amp; b c", "coterie attention r", ""]
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "notify-send is not on the PATH" in notify_process._desktop(message)


def test_every_kind_of_need_is_sent_and_what_an_end_says_is_not(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stall, a parked turn, held settings, a quota that is waited for; the end says that of a conflict and a stop."""
    place.look("run", "loop.at", "go")
    runs, run = find("last", place.folder / ".coterie")
    sent_now: list[notify_process.Notification] = []
    monkeypatch.setattr(notifications, "send", lambda channels, one: sent_now.append(one) or [])
    own = notifications.OwnSettings(folder=place.folder, channels=notify_process.Channels(desktop=True))
    notifier = notifications.Notifier(runs, run, Plan(name="t"), own)
    asked = r.AttentionAsked(id="a#1?1", turn="a#1", attempt=1, kind="stall", detail="no output")
    for record in (
        r.RunStarted(run=run, engine="loop"),
        r.TurnStarted(turn="a#1", agent="a", at=1.0),
        asked,
        r.AttemptInterrupted(turn="a#1", attempt=1, reason="parked", at=2.0),
        r.ConfigHeld(plan="", plan_hash="", held=(("notify.command", "a", "b"),), at=3.0),
        r.TreeMerged(status="conflict", branch="b", files=("x",), path="/x"),
        r.RunStopped(reason="quota until 2026-01-01T00:00:00Z"),
    ):
        notifier.observe(run, record)
    notifier.waits(run, "a#1", 1.8e9)
    assert [one.document["event"] for one in sent_now] == ["stall", "parked", "config", "quota"]
    where = f" --state-dir {runs.root}"
    assert sent_now[0].answer == f"coterie attention {run} 'a#1?1' wait|interrupt{where}"
    assert [one.answer.endswith(where) for one in sent_now] == [True, True, True, False]
    assert sent_now[-1].answer == ""
    assert "waits until" in sent_now[-1].what
    assert len({one.marker for one in sent_now}) == 4

    for at, record in enumerate(
        (
            r.AttemptInterrupted(turn="a#1", attempt=2, reason="parked", at=5.0),
            r.ConfigHeld(plan="", plan_hash="", held=(("notify.command", "a", "b"),), at=6.0),
        )
    ):
        notifier.observe(run, record)
        assert [one.document["event"] for one in sent_now[4 + at :]] == [("parked", "config")[at]]
    assert len({one.marker for one in sent_now}) == 6
    notifications.Notifier(runs, run, Plan(name="t"), own).observe(run, asked)
    assert sent_now[-1].marker == sent_now[0].marker

    sent_now.clear()
    silent = notifications.Notifier(runs, run, Plan(name="t"), notifications.OwnSettings(folder=place.folder))
    silent.attach(observers := Observers())
    assert observers.observe == []
    silent.waits(run, "a#1", 1.8e9)
    silent.recall()
    assert sent_now == []


def test_only_an_operators_word_is_written_to_settings(place: Place) -> None:
    """That of an agent is not, and a file that is no TOML stays as it is."""
    runs = Runs(place.folder / ".coterie")
    own = notifications.OwnSettings(folder=place.folder)
    notifications.Notifier(runs, "r", Plan(name="t"), own).attach(observers := Observers())
    heard = observers.of[r.OperatorSaid]
    said = r.OperatorSaid(message="m", what="project", text="Bash(make test)")
    heard("r", said)
    heard("r", replace(said, source="agent"))
    path = own_file(place.folder, os.environ)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(authority, "marks_of", lambda: ("r/a#1.1",))
        heard("r", replace(said, source="operator"))
    assert not path.exists()
    for _ in range(2):
        heard("r", replace(said, source="operator"))
    assert path.read_text().count("Bash(make test)") == 1
    assert notifications.own_settings(Plan(name="t"), place.folder, os.environ).allow == ("Bash(make test)",)
    write(path, "no toml")
    heard("r", replace(said, source="operator", text="Edit"))
    assert path.read_text() == "no toml"
