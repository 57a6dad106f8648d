"""Notify people who do not watch a run that it needs them, or has ended: by a program, a webhook, or the desktop.

A separate process sends each message (`coterie.execution.runs.notify_process`), so that nothing delays or fails the
run. That process first claims the message with a file in `notified/` of the run's folder, so a killed owner and its
successor send it only once. The channels come from the operator's own settings; of a loop's files only `notify.command`
counts.
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

from coterie.base import files
from coterie.base.clock import iso_time
from coterie.errors import CoterieError
from coterie.execution.kernel.owner import Observers
from coterie.execution.kinds import kind_of
from coterie.execution.runs.authority import check_operator
from coterie.execution.runs.notify_process import CHANNELS, LONGEST, NO_CHANNELS, Channels, Notification
from coterie.execution.runs.repository import LocalRuns, Runs
from coterie.history.journal.records import OperatorSaid, Record
from coterie.history.views.attention import Attention, AttentionView
from coterie.team.formats.settings_locations import has_own_files, own_file
from coterie.team.options.values import VARIABLE
from coterie.team.planning.place import RunPlace
from coterie.team.planning.plan import Plan, TreePlan

FOLDER = "notified"
"""The folder, in that of a run, with a file for each sent message; the file contains the problem, if any."""
_LOG = logging.getLogger("coterie")


class OwnSettings(Struct, frozen=True, kw_only=True):
    """The operator's own settings for a run.

    Attributes:
        folder: Where the run was started, which determines the project of the settings.
        channels: The channels for messages.
        allow: Rules for tool use in all runs of the project.
        problems: Problems with the settings, one sentence each.
        tree: What a new work tree of a run gets that has no settings.
    """

    folder: Path = Path()
    channels: Channels = NO_CHANNELS
    allow: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    tree: TreePlan = TreePlan()


def own_settings(plan: Plan, folder: Path, env: Mapping[str, str]) -> OwnSettings:
    """Read the operator's own settings for a run of *plan* that was started in *folder*."""
    place = kind_of(plan).project.place
    preset = place.preset if place is not None else ""
    if not has_own_files(folder, env, preset):
        return OwnSettings(folder=folder)
    from coterie.team.formats.settings.layers import operators  # few users have such files

    settings, found = operators(folder, env, preset)
    problems = [one.summary for one in found if one.is_error or one.code == "file-ignored"]
    webhook, missing = _expand(settings.notify.webhook, env)
    if missing:
        problems.append(f"notify.webhook names {missing}, which is not set: nothing is sent to it")
    elif webhook and not webhook.startswith(("http://", "https://")):
        problems.append("notify.webhook is not an address that begins with https:// or http://: nothing is sent to it")
        webhook = ""
    tree = TreePlan(copy=settings.worktree.copy, setup=settings.worktree.setup)
    channels = Channels(command=settings.notify.command, webhook=webhook, desktop=settings.notify.desktop)
    return OwnSettings(
        folder=folder, channels=channels, allow=settings.backend.allow, problems=tuple(problems), tree=tree
    )


def tree_place(plan: Plan, own: OwnSettings, place: RunPlace | None = None) -> RunPlace:
    """What new work trees of a run of *plan* are like; *place* is that of the command line, for one without any."""
    if (settings := kind_of(plan).project.place) is not None:
        return settings
    copy, setup = plan.worktree.copy or own.tree.copy, plan.worktree.setup or own.tree.setup
    return replace(place or RunPlace(branch_prefix="coterie"), copy=copy, setup=setup)


def send(channels: Channels, message: Notification) -> list["subprocess.Popen[bytes]"]:
    """Start a process that sends *message* for each of *channels*, and do not wait for it."""
    started = []
    for name in CHANNELS:
        if not getattr(channels, name):
            continue
        one = replace(message, channel=name, channels=channels, marker=f"{message.marker}.{name}")
        with suppress(OSError):  # a run continues without its messages
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "coterie.execution.runs.notify_process"],
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
    """Sends each request for a person in a run and its child runs once, when it is durable.

    It also writes rules that the operator allows for the project to the operator's own settings.

    Args:
        runs: The store of *run*, a run of *plan*.
        own: The operator's settings.
    """

    def __init__(self, runs: Runs, run: str, plan: Plan, own: OwnSettings) -> None:
        self._runs, self._run, self._team, self.own = runs, run, plan.name, own
        self._channels = replace(own.channels, command=kind_of(plan).project.notify or own.channels.command)
        self._view = AttentionView()
        self._started: list[subprocess.Popen[bytes]] = []

    def recall(self) -> None:
        """Read the records of earlier owners, and send their open requests that were not sent."""
        if not self._channels:
            return
        for run, record in self._runs.history(self._run):
            self._view.apply(run, record)
        for one in self._view.open(is_owned=False):
            self._send(one)

    def attach(self, observers: Observers) -> None:
        """Observe what an operator says, and all records if there is a channel for requests."""
        observers.of[OperatorSaid] = self._hear
        if self._channels:
            observers.observe.append(self.observe)

    def _hear(self, run: str, record: Record) -> None:
        if isinstance(record, OperatorSaid) and record.what == "project" and record.source == "operator":
            keep_rule(record.text, self.own.folder)

    def observe(self, run: str, record: Record) -> None:
        """Send the requests for a person that a durable record of the run or of a child run makes."""
        for one in self._view.apply(run, record):
            self._send(one)

    def waits(self, run: str, turn: str, due: float) -> None:
        """Notify that *turn* waits for its quota in this process."""
        if not self._channels:
            return
        text = f"{turn} waits until {iso_time(due)} for its quota"
        self._send(
            Attention(kind="quota", run=run, id=f"{turn} {due:.0f}", since=due, text=text, command=""), held=True
        )

    def _send(self, one: Attention, held: bool = False) -> None:
        if one.kind == "conflict" or (one.kind == "quota" and not held):
            return  # the message about the end or stop includes it
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
        """Stop tracking the processes that are still sending."""
        leave(self._started)


def keep_rule(rule: str, folder: Path) -> None:
    """Allow *rule* in all runs of the project of *folder*, in the operator's own settings."""
    from coterie.team.formats.settings.edit import allow  # few runs add rules

    path = own_file(folder, os.environ)
    try:
        check_operator()  # the terminal of a run may be that of an agent
        allow(path, rule, folder.resolve())
    except (OSError, CoterieError) as error:
        _LOG.warning("%s is allowed in this run only: %s cannot be written: %s", rule, path, error)


_TITLES = {"permission": "asks for permission", "question": "asks a question", "stall": "may be stuck"}


def leave(started: list["subprocess.Popen[bytes]"]) -> None:
    """Let the processes end by themselves, without a warning from Python."""
    for process in started:
        if process.poll() is None:
            process.returncode = 0


def marker(folder: Path, *names: str) -> str:
    """The path, without the channel, of the file that claims the message *names* of the run in *folder*."""
    return str(folder.resolve() / FOLDER / sha256("\0".join(names).encode()).hexdigest()[:16])


def problems(folder: Path) -> list[str]:
    """The problems with messages of the run in *folder*."""
    found = []
    for path in sorted((folder / FOLDER).glob("*.*")):
        with suppress(OSError, UnicodeDecodeError):
            if text := files.read(path, LONGEST).decode().strip():
                found.append(f"notify.{path.suffix[1:]}: {text}")
    return list(dict.fromkeys(found))


def _expand(text: str, env: Mapping[str, str]) -> tuple[str, str]:
    """Expand the variables `${NAME}` in *text* from *env*; if one is not set, return an empty text and its name."""
    missing = next((name for name in VARIABLE.findall(text) if not env.get(name)), "")
    return ("", missing) if missing else (VARIABLE.sub(lambda found: env[found[1]], text).strip(), "")
