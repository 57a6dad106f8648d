"""The process that sends one message about a run, read as JSON from its standard input.

It claims the message first, by creating a file that must not exist; the problem with it, if any, is written there.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from coterie.agents.backends.git_variables import without_repository
from coterie.agents.backends.secrets import Secrets
from coterie.base import program_files
from coterie.base.escapes import printable

CHANNELS = ("command", "webhook", "desktop")
LONGEST = 4000
"""How many characters of a text a message has."""
WITHIN = 30.0
"""Time limit of a program, in seconds."""
SAID_MOST = 500
"""How many characters of its output are shown if it fails."""
TRIES = (0.0, 2.0, 10.0)
"""Seconds before each try to reach a webhook, and *ANSWERS_WITHIN* for its answer."""
ANSWERS_WITHIN = 10.0
_SHOWN = 300
"""How many characters of a sentence the desktop shows."""


class Channels(Struct, frozen=True, kw_only=True):
    """Where messages go: a program, the address of a webhook, the desktop of this machine."""

    command: tuple[str, ...] = ()
    webhook: str = ""
    desktop: bool = False

    def __bool__(self) -> bool:
        """Whether there is any channel."""
        return bool(self.command or self.webhook or self.desktop)


NO_CHANNELS = Channels()


class Notification(Struct, frozen=True, kw_only=True):
    """The message that the process sends.

    Attributes:
        marker: The file that claims it, without its *channel*, which `send` adds together with all settings.
        cwd: Where a program starts.
        title: One line; *what* is a sentence, and *answer* the command that answers the request.
        document: The whole message as data.
        question: The state directory, run and turn of a question to a human, whose text is read from the journal.
    """

    marker: str
    cwd: str
    title: str
    what: str
    answer: str
    document: dict[str, object]
    question: tuple[str, str, str] | None = None
    channel: str = ""
    channels: Channels = NO_CHANNELS


def main() -> int:
    """Send the message on standard input, unless it was already sent."""
    message = msgspec.json.decode(sys.stdin.buffer.read(), type=Notification)
    claim = claimed(Path(message.marker))
    if claim is None:
        return 0
    secrets = Secrets(os.environ)
    with os.fdopen(claim, "w", encoding="utf-8", errors="replace") as kept:
        try:
            message = _complete(message, secrets)
            problem = _SENDERS[message.channel](message)
        except Exception as error:  # nothing else would report it
            problem = f"{type(error).__name__}: {error}"
        if webhook := message.channels.webhook:
            problem = problem.replace(webhook, "***")
        kept.write(secrets.hide(problem))
    return 0


def claimed(marker: Path) -> int | None:
    """Create *marker* and return its descriptor; None if it exists, since the message was then already sent."""
    marker.parent.mkdir(mode=0o700, exist_ok=True)
    with suppress(FileExistsError):
        return os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    return None


def _complete(message: Notification, secrets: Secrets) -> Notification:
    """Add the text of its question to *message*, and hide secrets."""
    what = message.what
    if message.question is not None:
        from coterie.execution.runs.repository import Runs
        from coterie.execution.runs.turn_detail import asked

        root, run, turn = message.question
        runs = Runs(Path(root))
        with suppress(Exception):  # a message without the text is better than none
            what = f"{turn} asks: {asked(runs.journal(run), turn, runs, Path(message.cwd)).prompt}"[:LONGEST]
    document = secrets.hide_in({**message.document, **({"what": what} if message.question else {})})
    return msgspec.structs.replace(message, what=secrets.hide(what), document=document)


def call(argv: tuple[str, ...], given: bytes, cwd: Path, within: float = WITHIN) -> str:
    """Run a program with *given* on its standard input; return the problem, or an empty text.

    A program that an agent could have written is not started.
    """
    pipe, env = subprocess.PIPE, without_repository(os.environ)
    if why := program_files.refusal(argv, cwd, env):
        return f"{argv[0]} is not started: {why}"
    try:
        process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return f"{argv[0]} cannot be started: {error}"
    with process:
        try:
            said, _ = process.communicate(given, timeout=within)
        except subprocess.TimeoutExpired:
            return f"{argv[0]} took longer than {within:g} s and was ended"
        finally:
            with suppress(ProcessLookupError, PermissionError):  # its descendants end with it
                os.killpg(process.pid, signal.SIGKILL)
    text = said.decode("utf-8", "replace").strip()[-SAID_MOST:]
    return f"{argv[0]} ended with {process.returncode}" + (f": {text}" if text else "") if process.returncode else ""


def _program(message: Notification) -> str:
    return call(message.channels.command, json.dumps(message.document).encode(), Path(message.cwd))


def _webhook(message: Notification) -> str:
    """Post *message* as JSON: `text` for chats, and the whole document."""
    import urllib.request
    from urllib.error import HTTPError, URLError

    class NoRedirect(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *given: Any) -> None:
            """Follow no redirect: the message is only for the operator's address."""

    text = "\n".join(filter(None, (message.title, message.what, message.answer)))
    document = message.document | {"result": message.document.get("text", ""), "text": text}
    key = Path(message.marker).stem
    headers = {"Content-Type": "application/json", "User-Agent": "coterie", "Idempotency-Key": key}
    request = urllib.request.Request(message.channels.webhook, json.dumps(document).encode(), headers, method="POST")
    problem = ""
    for pause in TRIES:
        time.sleep(pause)
        try:
            with urllib.request.build_opener(NoRedirect).open(request, timeout=ANSWERS_WITHIN):
                return ""
        except HTTPError as error:
            problem = f"the webhook answered {error.code} {error.reason}"
            error.close()
            if error.code < 500 and error.code not in (408, 425, 429):
                break
        except (URLError, OSError) as error:
            problem = f"the webhook cannot be reached: {getattr(error, 'reason', error)}"
    return problem


def _desktop(message: Notification) -> str:
    """Show *message* on the desktop of this machine."""
    lines = (" ".join(printable(text).split()) for text in (message.what[:_SHOWN], message.answer) if text)
    title, body = " ".join(printable(message.title).split()), "\n".join(lines)
    if sys.platform == "darwin":
        show = ("on run argv", "display notification (item 2 of argv) with title (item 1 of argv)", "end run")
        return call(("osascript", *(word for line in show for word in ("-e", line)), title, body), b"", Path("/"))
    if shutil.which("notify-send") is None:
        return "notify-send is not on the PATH: install libnotify-bin, or unset notify.desktop"
    markup = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
    body = re.sub("[&<>]", lambda found: markup[found[0]], body)
    return call(("notify-send", "--app-name=coterie", "--", title, body), b"", Path("/"))


_SENDERS: dict[str, Callable[[Notification], str]] = {"command": _program, "webhook": _webhook, "desktop": _desktop}

if __name__ == "__main__":
    sys.exit(main())
