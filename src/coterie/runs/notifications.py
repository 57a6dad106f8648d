"""Tell people who do not watch a run that it needs them, or has ended: by a program, a webhook, or the desktop.

A separate process sends each message (`coterie.runs.notify_process`), so that nothing delays or fails the run. That
process claims the message by a file in `notified/` of the run's folder first: an owner that was killed and its next one
send it once. What is sent comes from the operator's own settings; of a loop's files only `notify.command` counts.
"""

import logging
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from coterie import files
from coterie.backends.processes import unmarked
from coterie.clock import iso_time
from coterie.errors import CoterieError
from coterie.formats.settings_locations import has_own_files, own_file
from coterie.journal.records import OperatorSaid, Record
from coterie.kinds import kind_of
from coterie.options.values import VARIABLE
from coterie.planning.plan import Plan
from coterie.runs.authority import check_operator
from coterie.runs.notify_process import CHANNELS, LONGEST, NO_CHANNELS, Channels, Notification
from coterie.runs.repository import LocalRuns, Runs
from coterie.views.attention import Attention, AttentionView

FOLDER = "notified"
"""The folder with a file for each message that was sent, in the folder of a run; it holds the problem, if any."""
_LOG = logging.getLogger("coterie")


class OwnSettings(Struct, frozen=True, kw_only=True):
    """What the operator's own settings say for a run.

    Attributes:
        folder: Where the run was started, which says for which project the settings are.
        channels: Where messages go.
        allow: Uses of tools that are allowed in all runs of the project.
        problems: What is wrong with the settings, each in a sentence.
    """

    folder: Path = Path()
    channels: Channels = NO_CHANNELS
    allow: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def own_settings(plan: Plan, folder: Path, env: Mapping[str, str]) -> OwnSettings:
    """What the operator's own settings say for a run of *plan* that was started in *folder*."""
    place = kind_of(plan).place
    preset = place.preset if place is not None else ""
    if not has_own_files(folder, env, preset):
        return OwnSettings(folder=folder)
    from coterie.formats.settings.layers import operators  # few users have such files

    settings, found = operators(folder, env, preset)
    problems = [one.summary for one in found if one.is_error or one.code == "file-ignored"]
    webhook, missing = _expand(settings.notify.webhook, env)
    if missing:
        problems.append(f"notify.webhook names {missing}, which is not set: nothing is sent to it")
    elif webhook and not webhook.startswith(("http://", "https://")):
        problems.append("notify.webhook is not an address that begins with https:// or http://: nothing is sent to it")
        webhook = ""
    channels = Channels(command=settings.notify.command, webhook=webhook, desktop=settings.notify.desktop)
    return OwnSettings(folder=folder, channels=channels, allow=settings.backend.allow, problems=tuple(problems))


def send(channels: Channels, message: Notification) -> list["subprocess.Popen[bytes]"]:
    """Start the processes that send *message* by each of *channels*, and do not wait for them."""
    started = []
    for name in CHANNELS:
        if not getattr(channels, name):
            continue
        one = replace(message, channel=name, channels=channels, marker=f"{message.marker}.{name}")
        with suppress(OSError), unmarked():  # a run goes on without its messages
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "coterie.runs.notify_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            started.append(process)
            assert process.stdin is not None
            with process.stdin as pipe:
                pipe.write(msgspec.json.encode(one))
    return started


class Notifier:
    """Sends what needs a person in a run and its child runs, when it is durable, each once.

    It also writes what the operator allows for the project to the operator's own settings.

    Args:
        runs: Where *run*, of *plan*, is kept.
        own: What the operator's settings say.
    """

    def __init__(self, runs: Runs, run: str, plan: Plan, own: OwnSettings) -> None:
        self._runs, self._run, self._team, self.own = runs, run, plan.name, own
        self._channels = replace(own.channels, command=kind_of(plan).notify or own.channels.command)
        self._view = AttentionView()
        self._started: list[subprocess.Popen[bytes]] = []

    def recall(self) -> None:
        """Take in what earlier owners recorded, and send what is open of it and was not sent."""
        if not self._channels:
            return
        for run, record in self._runs.history(self._run):
            self._view.apply(run, record)
        for one in self._view.open(is_owned=False):
            self._send(one)

    def observe(self, run: str, record: Record) -> None:
        """Take a durable record of the run or of a child run."""
        if isinstance(record, OperatorSaid) and record.what == "project" and record.source == "operator":
            keep_rule(record.text, self.own.folder)
        for one in self._view.apply(run, record) if self._channels else ():
            self._send(one)

    def waits(self, run: str, turn: str, due: float) -> None:
        """Send that *turn* waits here for its quota."""
        if not self._channels:
            return
        text = f"{turn} waits until {iso_time(due)} for its quota"
        self._send(
            Attention(kind="quota", run=run, id=f"{turn} {due:.0f}", since=due, text=text, command=""), held=True
        )

    def _send(self, one: Attention, held: bool = False) -> None:
        if one.kind == "conflict" or (one.kind == "quota" and not held):
            return  # the end, or the stop, says so
        again = "" if one.kind in ("question", "permission", "stall") else f"{one.since:.6f}"
        where = LocalRuns(self._runs.root).option
        answer = f"{one.command}{where}" if one.command else ""
        document: dict[str, object] = {
            "event": one.kind,
            "run": one.run,
            "topology": self._team,
            "turn": one.turn,
            "what": one.text[:LONGEST],
            "answer": answer,
            "answers": one.answers,
            "due": one.due,
            "policy": one.policy,
            "folder": str(self._runs.folder(self._run).resolve()),
            "cwd": str(self.own.folder),
        }
        message = Notification(
            marker=marker(self._runs.folder(self._run), one.kind, one.run, one.id, again),
            cwd=str(self.own.folder),
            title=f"{self._team}: {_TITLES.get(one.kind, 'needs you')}",
            what=one.text[:LONGEST],
            answer=answer,
            document=document,
            question=(str(self._runs.root.resolve()), one.run, one.turn) if one.kind == "question" else None,
        )
        self._started = [*(process for process in self._started if process.poll() is None)]
        self._started += send(self._channels, message)

    def close(self) -> None:
        """Leave the processes that still send to themselves."""
        leave(self._started)


def keep_rule(rule: str, folder: Path) -> None:
    """Allow what *rule* says in all runs of the project of *folder*, by the operator's own settings."""
    from coterie.formats.settings.edit import allow  # few runs allow anything

    path = own_file(folder, os.environ)
    try:
        check_operator()  # the terminal of a run may be that of an agent
        allow(path, rule, folder.resolve())
    except (OSError, CoterieError) as error:
        _LOG.warning("%s is allowed in this run only: %s cannot be written: %s", rule, path, error)


_TITLES = {"permission": "asks for permission", "question": "asks a question", "stall": "may be stuck"}


def leave(started: list["subprocess.Popen[bytes]"]) -> None:
    """Let the processes end by themselves, without a warning of Python's."""
    for process in started:
        if process.poll() is None:
            process.returncode = 0


def marker(folder: Path, *names: str) -> str:
    """The path, without the channel, of the file that claims the message with *names* of the run in *folder*."""
    return str(folder.resolve() / FOLDER / sha256("\0".join(names).encode()).hexdigest()[:16])


def problems(folder: Path) -> list[str]:
    """What went wrong with messages of the run in *folder*."""
    found = []
    for path in sorted((folder / FOLDER).glob("*.*")):
        with suppress(OSError, UnicodeDecodeError):
            if text := files.read(path, LONGEST).decode().strip():
                found.append(f"notify.{path.suffix[1:]}: {text}")
    return list(dict.fromkeys(found))


def _expand(text: str, env: Mapping[str, str]) -> tuple[str, str]:
    """*text* with the variables `${NAME}` of *env*; empty, and the name, if one is not set."""
    missing = next((name for name in VARIABLE.findall(text) if not env.get(name)), "")
    return ("", missing) if missing else (VARIABLE.sub(lambda found: env[found[1]], text).strip(), "")
