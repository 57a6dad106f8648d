"""The runs as rows of a list: all of them by the ends of their journals, those that are shown or at work in full."""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from coterie import files
from coterie.backends.base import Tool
from coterie.errors import CoterieError, JournalUnreadable
from coterie.ids import child_run_id
from coterie.journal.jsonl import JOURNAL, STREAM
from coterie.journal.records import MERGE_CONFLICT
from coterie.journal.status import ENDS, read_status
from coterie.planning.plan import Plan
from coterie.runs.index import Entry
from coterie.runs.news import NewRecords
from coterie.runs.repository import RunLocation, Runs
from coterie.topology.patterns.inputs import task_of
from coterie.views.attention import QUOTA
from coterie.views.known_run import KnownRun
from coterie.views.live import LiveRun
from coterie.views.rows import RunRow, run_row
from coterie.views.words import state_words

LARGEST = 8 << 20
"""Bytes of the journal of a run that is over, above which only its beginning and its end are read."""
_PROMPT = 200
_TAIL = 1 << 16
"""Bytes of an attempt's output, from its end, in which its current tool is looked for."""
_GROUPS = ("person", "running", "stopped", "failed", "completed")


class RunEntry(Struct, frozen=True, kw_only=True):
    """A run in a list, by its place in the index and the end of its journal.

    Attributes:
        key: Its folder, or its place on a cluster and its id: unique where ids are not.
        group: Its place in the list: it needs a `person`, or is `running`, `stopped`, `failed` or `completed`.
        state: As `coterie runs` shows it; *words* in words.
        at: Its last sign of life, in Unix seconds; 0: not known.
    """

    key: str
    run: str
    folder: str
    team: str
    started: float
    cwd: str
    group: str
    state: str
    words: str
    reason: str = ""
    at: float = 0.0


class AtWork(Struct, frozen=True, kw_only=True):
    """An agent at work. *tool*: the one that it uses now; *heard*: when it last printed anything, 0: not known."""

    run: str
    turn: str
    agent: str
    since: float
    tool: str = ""
    heard: float = 0.0


class ShownRun(Struct, frozen=True, kw_only=True):
    """What a list shows of a run beside `RunEntry`.

    Attributes:
        row: See `coterie.views.rows.RunRow`; None: its journal is long and was not read.
        prompt: The first line.
        most: As many turns as it can take at most, if that is proved; None while it is not at work.
        attention: How many things in it need a person.
        agents: Those at work.
    """

    key: str
    prompt: str
    row: RunRow | None = None
    most: int | None = None
    attention: int = 0
    agents: tuple[AtWork, ...] = ()


class RunRows:
    """The runs of *home*, again and again: what was read of a run is kept, and only what is new is read.

    Args:
        bound: Gives the most turns of a plan, as `coterie.proofs.worst_case`; called once for each.
    """

    def __init__(self, home: RunLocation, bound: Callable[[Plan], int | None] | None = None) -> None:
        self._home, self._bound = home, bound
        self._bounds: dict[str, int | None] = {}
        self._entries: dict[str, Entry] = {}
        self._listed: dict[str, tuple[int, RunEntry]] = {}
        """Runs without an owner, each with the time of the last change of its journal."""
        self._live: dict[str, tuple[NewRecords, LiveRun]] = {}

    def listing(self, *, everywhere: bool = False) -> list[RunEntry]:
        """All runs: those that need a person, at work, stopped, failed, completed; in each group the newest first."""
        listed = []
        for entry in self._home.newest(everywhere=everywhere):
            is_here = os.path.isabs(entry.folder)
            key = entry.folder if is_here else f"{entry.folder} {entry.run}"
            self._entries[key] = entry
            with suppress(OSError):
                listed.append(self._entry(key, entry, is_here=is_here))
        return sorted(listed, key=lambda one: _GROUPS.index(one.group))  # stable: newest first

    def details(self, keys: Iterable[str]) -> dict[str, ShownRun]:
        """The details of the runs with *keys*, of the last `listing`; runs that cannot be read are left out."""
        found = {}
        for key in keys:
            with suppress(OSError, CoterieError):
                found[key] = self._details(key)
        return found

    def _entry(self, key: str, entry: Entry, *, is_here: bool) -> RunEntry:
        changed = 0
        if is_here:
            journal = f"{entry.folder}/{JOURNAL}"
            changed = os.stat(journal).st_mtime_ns
            if key in self._listed and self._listed[key][0] == changed:
                return self._listed[key][1]
            status = read_status(Path(journal), Path(entry.folder, "lock"))
        else:
            runs, run = self._home.open(entry)
            status = runs.store.status(run)
        state, _, why = status.state.partition(": ")
        group = "stopped"
        if state == "running":
            group = "running"
            with suppress(OSError, CoterieError):
                group = "person" if self._read(key).open_attention() else "running"
        elif why == "waiting" or why.startswith(QUOTA) or status.reason == MERGE_CONFLICT:
            group = "person"
        elif state in ENDS:
            group = "completed" if state == "completed" else "failed"
        found = RunEntry(
            key=key,
            run=entry.run,
            folder=entry.folder,
            team=entry.topology,
            started=entry.started,
            cwd=entry.cwd,
            group=group,
            state=status.state,
            words=state_words(state, why or status.reason),
            reason=status.reason,
            at=changed / 1e9 or status.at,
        )
        if is_here and state != "running":
            self._listed[key] = changed, found
        return found

    def _read(self, key: str) -> LiveRun:
        """The state of a run now."""
        if key not in self._live:
            runs, run = self._home.open(self._entries[key])
            self._live[key] = NewRecords(runs, run), LiveRun(run)
        news, live = self._live[key]
        for name, record in news.read():
            live.apply(name, record)
        return live

    def _details(self, key: str) -> ShownRun:
        runs, run = self._home.open(self._entries[key])
        is_owned = runs.is_owned(run)
        is_long = key not in self._live and runs.is_here and runs.file(run).stat().st_size > LARGEST
        if is_long and not is_owned:
            return ShownRun(key=key, prompt=_first_line(task_of((), runs.first(run).input)))
        live = self._read(key)
        if run not in live.runs:
            raise JournalUnreadable(*runs.store.place(run), "the run has not begun")
        row = run_row(live.runs[run])
        return ShownRun(
            key=key,
            prompt=_first_line(row.prompt),
            row=row,
            most=self._most(live.runs[run]) if is_owned else None,
            attention=len(live.open_attention(is_owned=is_owned)),
            agents=tuple(one for known in live.runs.values() for one in _at_work(runs, known)) if is_owned else (),
        )

    def _most(self, known: KnownRun) -> int | None:
        """The most turns of a run, by its plan."""
        text, plan = known.view.plan, known.plan.plan
        if text not in self._bounds:
            self._bounds[text] = self._bound(plan) if self._bound is not None and plan is not None else None
        return self._bounds[text]


def _at_work(runs: Runs, known: KnownRun) -> list[AtWork]:
    """The agents of *known* whose attempts run."""
    found = []
    for turn in known.working():
        mark = child_run_id(known.id, turn.id, turn.attempt)
        tool, heard = _current_tool(runs, mark)
        since = turn.attempts[-1].started
        agent = known.plan.node_of(turn.id) or turn.agent
        found.append(AtWork(run=known.id, turn=turn.id, agent=agent, since=since, tool=tool, heard=heard))
    return found


def _current_tool(runs: Runs, mark: str) -> tuple[str, float]:
    """The tool that an attempt uses now, and when it last printed anything, by the end of what is kept of it."""
    path = runs.folder(mark) / STREAM
    try:
        lines = files.read_end(path, _TAIL).splitlines() if runs.is_here else runs.printed(mark, 0).splitlines()
        heard = path.stat().st_mtime if runs.is_here else 0.0
    except OSError:
        return "", 0.0
    tools: dict[str, str] = {}
    for line in lines:
        if b'"tool"' in line:
            with suppress(msgspec.DecodeError):
                tool = msgspec.json.decode(line, type=Tool)
                if tool.state == "started":
                    tools[tool.id or tool.name] = " ".join(filter(None, (tool.name, tool.detail)))[:_PROMPT]
                else:
                    tools.pop(tool.id or tool.name, None)
    return next(reversed(tools.values()), ""), heard


def _first_line(text: str) -> str:
    return next((line.strip()[:_PROMPT] for line in text.splitlines() if line.strip()), "")
