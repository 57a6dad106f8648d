"""The runs as rows of a list: all of them from the ends of their journals, visible and working ones in full."""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from coterie.agents.backends.base import Tool
from coterie.base import files
from coterie.base.ids import child_run_id
from coterie.errors import CoterieError, JournalUnreadable
from coterie.execution.runs.attention import unanswered
from coterie.execution.runs.index import Entry
from coterie.execution.runs.messages import answered_turns
from coterie.execution.runs.repository import RunLocation, Runs
from coterie.execution.runs.run_stream import RunStream
from coterie.history.journal.jsonl import JOURNAL, STREAM
from coterie.history.journal.records import MERGE_CONFLICT, WAITING
from coterie.history.journal.status import ENDS, read_status
from coterie.history.views.attention import QUOTA
from coterie.history.views.known_run import KnownRun
from coterie.history.views.live import LiveRun
from coterie.history.views.rows import RunRow, run_row
from coterie.history.views.words import ANSWERED, state_words
from coterie.team.planning.plan import Plan
from coterie.team.topology.patterns.inputs import task_of

LARGEST = 8 << 20
"""If the journal of an ended run has more bytes than this, only its beginning and its end are read."""
KEPT = 2000
"""How many runs without an owner have their details kept; beyond that those that were not asked for longest go."""
_BOUNDS = 100
"""How many plans have their maximum of turns kept."""
_PROMPT = 200
_TAIL = 1 << 16
"""How many bytes at the end of an attempt's output are searched for its current tool."""
_GROUPS = ("person", "running", "stopped", "failed", "completed")


class RunEntry(Struct, frozen=True, kw_only=True):
    """A run in a list, from its entry in the index and the end of its journal.

    Attributes:
        key: Its folder, or its cluster and id; unique even if ids are not.
        group: Its group in the list: it needs a `person`, or is `running`, `stopped`, `failed` or `completed`.
        state: As `coterie runs` shows it; *words* has it in words.
        at: When it ended, else its last sign of life, in Unix seconds; 0: not known.
        answers: When its inbox last changed, in nanoseconds.
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
    answers: int = 0


class AtWork(Struct, frozen=True, kw_only=True):
    """An agent at work. *tool*: its current tool; *heard*: when it last printed anything, 0: not known."""

    run: str
    turn: str
    agent: str
    since: float
    tool: str = ""
    heard: float = 0.0


class ShownRun(Struct, frozen=True, kw_only=True):
    """Further details of a run in a list, in addition to `RunEntry`.

    Attributes:
        row: See `coterie.history.views.rows.RunRow`; None: its journal is long and was not read.
        prompt: The first line of its prompt.
        most: The proved maximum of its turns; None while it is not at work.
        attention: How many requests in it need a person.
        agents: The agents at work.
    """

    key: str
    prompt: str
    row: RunRow | None = None
    most: int | None = None
    attention: int = 0
    agents: tuple[AtWork, ...] = ()


class RunRows:
    """The runs of *home*, listed repeatedly: earlier results are kept, and only new records are read.

    What it keeps does not grow with time: all records only of runs with an owner, of others the details, and nothing of
    runs that are no longer listed.

    Args:
        bound: Returns the maximum of turns of a plan, as `coterie.proofs.worst_case`; called once per plan.
    """

    def __init__(self, home: RunLocation, bound: Callable[[Plan], int | None] | None = None) -> None:
        self._home, self._bound = home, bound
        self._bounds: dict[str, int | None] = {}
        self._entries: dict[str, Entry] = {}
        self._listed: dict[str, tuple[tuple[int, int], RunEntry]] = {}
        """Runs without an owner, with the times when their journal and their inbox last changed."""
        self._live: dict[str, tuple[RunStream, LiveRun]] = {}
        self._found: dict[str, RunEntry] = {}
        self._shown: dict[str, tuple[object, ShownRun]] = {}
        """The details of runs without an owner, with their state at that time; those asked for last are the last."""

    def listing(self, *, everywhere: bool = False) -> list[RunEntry]:
        """All runs by group (needs a person, running, stopped, failed, completed), the newest of each group first."""
        listed, self._entries = list[RunEntry](), {}
        for entry in self._home.newest(everywhere=everywhere):
            is_here = os.path.isabs(entry.folder)
            key = entry.folder if is_here else f"{entry.folder} {entry.run}"
            self._entries[key] = entry
            with suppress(OSError):
                listed.append(self._entry(key, entry, is_here=is_here))
        self._found = {one.key: one for one in listed}
        for key in [key for key in self._live if key not in self._found or self._found[key].state != "running"]:
            self.details({key} & self._found.keys())
            self._live.pop(key, None)
        for kept in (self._listed, self._shown):
            for key in kept.keys() - self._found.keys():
                del kept[key]
        return sorted(listed, key=lambda one: _GROUPS.index(one.group))  # stable: newest first

    def details(self, keys: Iterable[str]) -> dict[str, ShownRun]:
        """The details of the runs with *keys* in the last `listing`, without unreadable runs."""
        found = {}
        for key in keys:
            with suppress(OSError, CoterieError):
                found[key] = self._details(key)
        return found

    def _entry(self, key: str, entry: Entry, *, is_here: bool) -> RunEntry:
        changed, answers = 0, 0
        runs, run = self._home.open(entry)
        if is_here:
            journal = f"{entry.folder}/{JOURNAL}"
            changed = os.stat(journal).st_mtime_ns
            with suppress(OSError):
                answers = os.stat(f"{entry.folder}/inbox").st_mtime_ns
            if key in self._listed and self._listed[key][0] == (changed, answers):
                return self._listed[key][1]
            status = read_status(Path(journal), Path(entry.folder, "lock"))
        else:
            status = runs.store.status(run)
        state, _, why = status.state.partition(": ")
        group, words = "stopped", state_words(state, why or status.reason)
        if state == "running":
            group = "running"
            with suppress(OSError, CoterieError):
                group = "person" if self._read(key).open_attention() else "running"
        elif why == WAITING and answers and answered_turns(runs.inbox(run)) and not self._waits(key, runs, run):
            words = ANSWERED
        elif why == WAITING or why.startswith(QUOTA) or status.reason == MERGE_CONFLICT:
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
            words=words,
            reason=status.reason,
            at=(status.at if state in ENDS else 0.0) or changed / 1e9,
            answers=answers,
        )
        if is_here and state != "running":
            self._listed[key] = (changed, answers), found
        return found

    def _waits(self, key: str, runs: Runs, run: str) -> bool:
        """Whether a question of a parked run has no answer, not even one that waits for the next owner."""
        with suppress(OSError, CoterieError):
            return bool(unanswered(runs, run, self._read(key).open_attention(is_owned=False)))
        return True

    def _read(self, key: str) -> LiveRun:
        """The present state of a run."""
        if key not in self._live:
            runs, run = self._home.open(self._entries[key])
            self._live[key] = RunStream(runs, run, text=False), LiveRun(run)
        news, live = self._live[key]
        for name, record in news.records():
            live.apply(name, record)
        return live

    def _details(self, key: str) -> ShownRun:
        now = self._listed.get(key, self._found[key])
        then, shown = self._shown.pop(key, (None, None))
        if shown is None or then != now:
            runs, run = self._home.open(self._entries[key])
            if runs.is_owned(run):
                return self._read_details(key, runs, run, is_owned=True)
            shown = self._read_details(key, runs, run, is_owned=False)
            self._live.pop(key, None)
        self._shown[key] = now, shown
        if len(self._shown) > KEPT:
            del self._shown[next(iter(self._shown))]
        return shown

    def _read_details(self, key: str, runs: Runs, run: str, *, is_owned: bool) -> ShownRun:
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
        """The maximum of turns of a run, by its plan."""
        text, plan = known.view.plan, known.plan.plan
        if text not in self._bounds:
            if len(self._bounds) >= _BOUNDS:
                self._bounds.clear()
            self._bounds[text] = self._bound(plan) if self._bound is not None and plan is not None else None
        return self._bounds[text]


def _at_work(runs: Runs, known: KnownRun) -> list[AtWork]:
    """The agents of *known* with a running attempt."""
    found = []
    for turn in known.working():
        mark = child_run_id(known.id, turn.id, turn.attempt)
        tool, heard = _current_tool(runs, mark)
        since = turn.attempts[-1].started
        agent = known.plan.node_of(turn.id) or turn.agent
        found.append(AtWork(run=known.id, turn=turn.id, agent=agent, since=since, tool=tool, heard=heard))
    return found


def _current_tool(runs: Runs, mark: str) -> tuple[str, float]:
    """The current tool of an attempt, and when it last printed anything, from the end of its stored output."""
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
