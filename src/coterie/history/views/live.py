"""A run and its child runs as tables of rows, for readers that receive only changes.

    live = LiveRun("r")
    for run, record in runs.history("r"):
        live.apply(run, record)
    shown = live.state()
    ...                                # more records are applied
    shown = merge(shown, live.changes())

A row always replaces the whole row of its key. `coterie.history.views.rows` has the rows.
"""

from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping
from typing import Any
from urllib.parse import quote, unquote

import msgspec

from coterie.errors import UsageError
from coterie.history.journal import records as r
from coterie.history.views import rows
from coterie.history.views.attention import Attention, AttentionView
from coterie.history.views.ending import EndFacts
from coterie.history.views.known_run import KnownRun
from coterie.history.views.team import teams
from coterie.team.planning.plan import Plan

Position = dict[str, int]
"""The seq of the last record of each run, by the run's id."""
Tables = dict[str, dict[str, Any]]
"""Rows by table and key, as plain data; in changes, None is a removed row. `position` is a table of numbers."""
TABLES = ("runs", "teams", "nodes", "arrows", "stages", "turns", "actors", "attention", "costs")
_USED = (r.TurnFinished, r.AttemptFailed, r.AttemptInterrupted, r.TurnCancelled)


class LiveRun:
    """The state of the run *run* and its child runs; feed it their records, those of each run in order.

    Args:
        plan: Its plan, for a child run whose records have none.
        answers: The turns whose whole answers are kept; None: all.

    Attributes:
        runs: The state of each run, by id.
        costs: The usage of each attempt, in the order in which they ended.
        ends: Why the run does not go on, if so.
    """

    def __init__(self, run: str, plan: Plan | None = None, answers: Container[str] | None = ()) -> None:
        self.run, self._plan, self._answers = run, plan, answers
        self.runs: dict[str, KnownRun] = {}
        self.costs: dict[str, rows.CostRow] = {}
        self.ends = EndFacts()
        self._teams: dict[str, Any] = {}
        self._attention = AttentionView()
        self._asked: dict[str, Any] = {}
        self._changed: dict[tuple[str, str], tuple[KnownRun | None, Any]] = {}
        """Changed rows by table and key: the function that makes the row, or the row itself."""
        self._moved: set[str] = set()

    @property
    def position(self) -> Position:
        """The last applied record of each run."""
        return {id: one.view.seq for id, one in self.runs.items()}

    def apply(self, run: str, record: r.Record) -> None:
        """Apply the next record of *run*."""
        known = self.runs.get(run) or self._open(run)
        known.apply(record)
        self._attention.apply(run, record)
        if run == self.run:
            self.ends.apply(record)
        self._moved.add(run)
        for one in (
            known.line()
        ):  # a failure below may be the first one of the run, and a team waits if everything in it waits
            self._mark("runs", one.id, one)
            if one.above is not None:
                turn = one.id.rpartition("/")[2].rpartition(".")[0]
                self._mark("turns", f"{one.above.id}/{turn}", one.above, turn)
                one.above.plan.changed[one.above.plan.node_of(turn)] = None
                self._of_plan(one.above)
        match record:
            case r.RunStarted() | r.ConfigChanged() | r.PlanReloaded():
                self._draw(known)
            case r.RunReopened():
                for asked in record.asked:
                    self._mark("turns", f"{run}/{asked}", known, asked)
            case r.ActorCrashed() | r.ActorStarted() | r.ActorStopped() | r.SupervisorFailed():
                self._mark_actor(known, record.name)
            case r.RestartPlanned():
                for name in record.names:
                    self._mark_actor(known, name)
            case r.LetterDead():
                self._mark_actor(known, record.recipient)
        if (turn := getattr(record, "turn", "")) and known.view.turn(turn) is not None:
            self._of_turn(known, turn, record)
        self._of_plan(known)

    def own(self, is_owned: bool) -> None:
        """Learn whether a process drives the run; without one, nothing in an open run works."""
        root = self.runs.get(self.run)
        if root is not None and root.is_owned != is_owned:
            root.is_owned = is_owned
            for known in self.runs.values():
                self._mark_all(known)

    def state(self, only: Collection[str] = TABLES) -> Tables:
        """All rows, or *only* those of some tables; later `changes` are relative to this state."""
        self._changed.clear()
        self._moved.clear()
        found: Tables = {"position": dict(self.position), **{table: {} for table in TABLES}}
        for known in self.runs.values():
            self._mark_all(known)
        for place, team in self._teams.items():
            self._mark("teams", place, None, team)
        for key, cost in self.costs.items():
            self._mark("costs", key, None, cost)
        self._rows(found, only)
        self._asked = self._attention_rows()
        found["attention"] = dict(self._asked)
        return found

    def changes(self) -> Tables:
        """The rows that have changed since the last `state` or `changes`; empty if none has."""
        found: Tables = defaultdict(dict)
        for run in self._moved:
            found["position"][run] = self.runs[run].view.seq
        self._moved.clear()
        self._rows(found)
        asked = self._attention_rows()
        for id in asked.keys() | self._asked.keys():
            if asked.get(id) != self._asked.get(id):
                found["attention"][id] = asked.get(id)
        self._asked = asked
        return dict(found)

    def _rows(self, found: Tables, only: Collection[str] = TABLES) -> None:
        changed, self._changed = self._changed, {}
        for (table, key), (known, name) in changed.items():
            if table not in only:
                continue
            row = rows.MAKERS[table](known, name) if table in rows.MAKERS else name
            if row is not None:
                found[table][key] = msgspec.to_builtins(row, enc_hook=str)

    def open_attention(self, *, is_owned: bool = True) -> list[Attention]:
        """The open requests; see `coterie.history.views.attention.AttentionView.open`."""
        return self._attention.open(is_owned=is_owned)

    def _attention_rows(self) -> dict[str, Any]:
        return {f"{one.run}:{one.id}": msgspec.to_builtins(one) for one in self.open_attention()}

    def _mark(self, table: str, key: str, known: KnownRun | None, name: Any = None) -> None:
        self._changed[table, key] = (known, name)

    def _mark_all(self, known: KnownRun) -> None:
        self._mark("runs", known.id, known)
        plan = known.plan
        plan.changed |= dict.fromkeys((*plan.nodes, *plan.arrows, *(-1 - n for n in range(len(plan.stages)))))
        self._of_plan(known)
        for turn in known.view.turns:
            self._mark("turns", f"{known.id}/{turn.id}", known, turn.id)
        for name in known.view.actors.by_name:
            self._mark_actor(known, name)

    def _mark_actor(self, known: KnownRun, name: str) -> None:
        if (actor := known.view.actors.by_name.get(name)) is not None:
            self._mark("actors", f"{known.id}/{name}", None, actor)

    def _open(self, run: str) -> KnownRun:
        """Add *run*; the records of the run above came first."""
        above_id, _, attempt = run.rpartition("/")
        above = self.runs.get(above_id)
        turn = attempt.rpartition(".")[0]
        place, plan = "", self._plan
        if above is not None:
            node = above.plan.node_of(turn) or turn.rpartition("#")[0]
            place = f"{above.place}/{node}" if above.place else node
            plan = above.plan.teams.get(node)
            self._mark("turns", f"{above.id}/{turn}", above, turn)
        known = self.runs[run] = KnownRun(run, above, place, plan, self._answers)
        if above is not None:
            above.children[turn].append(known)
            above.children[turn].sort(
                key=lambda one: int(one.id.rpartition(".")[2])
            )  # child runs may be read in any order
        return known

    def _draw(self, known: KnownRun) -> None:
        plan = known.plan.plan
        for place, team in teams(plan, known.place) if plan is not None and known.plan.team is not None else ():
            if self._teams.get(place) != team:
                self._teams[place] = team
                self._mark("teams", place, None, team)

    def _of_plan(self, known: KnownRun) -> None:
        for one in known.plan.changed:
            match one:
                case str():
                    self._mark("nodes", f"{known.id}/{one}", known, one)
                case int() if one < 0:
                    self._mark("stages", f"{known.id}/{-1 - one}", None, known.plan.stages[-1 - one])
                case _:
                    self._mark("arrows", f"{known.id}/{one}", None, known.plan.arrows[one])
        known.plan.changed.clear()

    def _of_turn(self, known: KnownRun, turn: str, record: r.Record) -> None:
        self._mark("turns", f"{known.id}/{turn}", known, turn)
        known.plan.changed[known.plan.node_of(turn)] = None
        if isinstance(record, _USED) and record.usage != r.NO_USAGE and not record.usage.turns:
            key = f"{known.id}/{record.seq}"
            self.costs[key] = rows.cost_row(known, record)
            self._mark("costs", key, None, self.costs[key])


def fold(
    records: Iterable[tuple[str, r.Record]], run: str, plan: Plan | None = None, answers: Container[str] | None = ()
) -> LiveRun:
    """The state after *records* of *run* and its child runs; see `LiveRun`."""
    live = LiveRun(run, plan, answers)
    for name, record in records:
        live.apply(name, record)
    return live


def changes_since(
    records: Iterable[tuple[str, r.Record]], run: str, position: Mapping[str, int], plan: Plan | None = None
) -> Tables:
    """The changes by *records* after *position*; merged into the state there, they give the state after all records."""
    known = list(records)
    live = fold(((name, one) for name, one in known if one.seq <= position.get(name, 0)), run, plan)
    live.state()
    for name, record in known:
        if record.seq > position.get(name, 0):
            live.apply(name, record)
    return live.changes()


def merge(state: Tables, changes: Tables) -> Tables:
    """Apply *changes* to *state*."""
    merged = {table: dict(found) for table, found in state.items()}
    for table, found in changes.items():
        for key, row in found.items():
            if row is None:
                merged[table].pop(key, None)
            else:
                merged[table][key] = row
    return merged


def position_text(position: Mapping[str, int]) -> str:
    """Format *position* as one line, `118;polish#1.1=40`; the root run comes first."""
    root = min(position, key=len, default="")
    below = sorted((id.removeprefix(f"{root}/"), seq) for id, seq in position.items() if id != root)
    return ";".join([str(position.get(root, 0)), *(f"{quote(id, safe='#./')}={seq}" for id, seq in below)])


def read_position(text: str, run: str) -> Position:
    """Parse *text* as a position of the root *run*; empty: before its first record.

    Raises:
        UsageError: If it is none.
    """
    if not text:
        return {}
    first, *rest = text.split(";")
    found = {"": first} | {f"/{unquote(id)}": seq for id, _, seq in (part.rpartition("=") for part in rest)}
    if not all(seq.isdecimal() for seq in found.values()) or "/" in found:
        raise UsageError(
            f"{text!r} is no position in a run: give one that its reader got, like '12' or '12;team#1.1=3'"
        )
    return {run + below: int(seq) for below, seq in found.items()}
