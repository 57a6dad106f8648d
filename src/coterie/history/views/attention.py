"""Open requests for a person in a run: permissions, stalls, questions, parked turns, quotas, conflicts."""

import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import PurePath
from typing import Any

import msgspec
from msgspec import Struct

from coterie.base.ids import attempt_id
from coterie.history.journal import records as r
from coterie.history.views.recoveries import Recoveries
from coterie.history.views.timeline import held_back, sentence
from coterie.history.views.words import listed, respond_command
from coterie.team.planning.plan import AgentPlan, Plan, from_json

QUOTA = "quota until "
"""The beginning of the reason of a run that stopped because of a provider's quota."""
OF_OWNERS = ("permission", "stall")
"""The kinds that end with the process that drives the run: its next owner retries the attempt."""


class Attention(Struct, frozen=True, kw_only=True):
    """A request for a person.

    Attributes:
        kind: `permission` to use a tool, `config` (weaker settings are held back), `stall`, `question` to a human,
            `parked` (a turn or gate that is retried only if a person allows it), `quota`, `stuck` (a cluster cannot
            continue the run, or recoveries did not get it further), or `conflict`: work that could not be merged.
        run: Its run, possibly a child run.
        id: Its id in `coterie attention`, unique in the root run; in a child run `<turn>.<attempt>/…`.
        turn: The turn of *run*; empty if the whole run waits.
        since: Unix seconds.
        text: A sentence, without full stop.
        answers: The possible answers; empty: any text, or only *command*.
        command: The command that answers it.
        due: When *policy* answers, in Unix seconds; None: it waits until it is answered.
        policy: The answer at *due*.
        rule: The rule that the answers `always` and `project` allow.
    """

    kind: str
    run: str
    id: str
    since: float
    text: str
    command: str
    turn: str = ""
    answers: tuple[str, ...] = ()
    due: float | None = None
    policy: str = ""
    rule: str = ""


def attention_of(run: str, asked: r.AttentionAsked) -> Attention:
    """Turn *asked*, a record of *run*, into a request."""
    answers, id = asked.answers, _address(run, asked.id)
    return Attention(
        kind=asked.kind,
        run=run,
        id=id,
        turn=asked.turn,
        since=asked.at,
        text=sentence(asked),
        answers=answers,
        command=answer_command(run, id, answers),
        due=asked.due,
        policy=asked.policy,
        rule=asked.rule,
    )


def answer_command(run: str, id: str, answers: tuple[str, ...]) -> str:
    """The command that answers the request *id* in the root run of *run* with one of *answers*."""
    return f"coterie attention {run.partition('/')[0]} {shlex.quote(id)} {'|'.join(answers)}"


def _address(run: str, id: str) -> str:
    """The address of *id* of *run* within the root run."""
    below = run.partition("/")[2]
    return f"{below}/{id}" if below else id


class AttentionView:
    """The open requests of a root run and its child runs; feed it their records, those of each run in order.

    view = AttentionView()
    for run, record in runs.history("r"):
        view.apply(run, record)
    print(view.open(is_owned=runs.is_owned("r")))

    Attributes:
        recoveries: How often the root run was taken over.
    """

    def __init__(self) -> None:
        self._runs: dict[str, _Run] = {}
        self.recoveries = Recoveries()

    def apply(self, run: str, record: r.Record) -> list[Attention]:
        """Apply the next record of *run*; return the requests that it opens."""
        known = self._runs.get(run)
        if known is None:
            above, _, attempt = run.rpartition("/")
            known = self._runs[run] = _Run(run, self._runs.get(above), attempt)
        known.apply(record)
        self.recoveries.apply(run, record)
        opened, known.opened = known.opened, []
        return opened

    def open(self, *, is_owned: bool) -> list[Attention]:
        """The requests that are open now, oldest first.

        Args:
            is_owned: Whether a process drives the root run; otherwise no attempt waits for an answer.
        """
        found = [
            one
            for run in self._runs.values()
            for one in (*(run.open.values() if run.is_awaited else ()), *run.conflicts.values())
            if is_owned or one.kind not in OF_OWNERS
        ]
        return sorted(found, key=lambda one: (one.since, one.run, one.id))


class _Run:
    """The requests of one run.

    Attributes:
        open: Open requests by id; each becomes void when its turn or the run ends.
        opened: The requests that the last record has opened.
        conflicts: Merge conflicts by branch; these outlive the run.
    """

    def __init__(self, run: str, above: "_Run | None", attempt: str) -> None:
        self.run, self._above, self._attempt = run, above, attempt
        self.open: dict[str, Attention] = {}
        self.opened: list[Attention] = []
        self._of_turn: dict[str, list[str]] = {}
        """The ids of the requests of each turn, and of what has no turn, open or not."""
        self.conflicts: dict[str, Attention] = {}
        self._asked: Attention | None = None
        """The last answered request, for which a turn may be parked."""
        self._attempts: dict[str, str] = {}
        """The agents of running attempts, by the attempts' ids."""
        self._attempts_of: dict[str, list[str]] = {}
        """The ids of the attempts of each turn, running or not."""
        self._agents: Mapping[str, AgentPlan] | None = None
        self._teams: dict[str, Plan] = {}
        """The plans of child runs, by the attempts' ids; a child run may be read after its attempt has ended."""

    @property
    def is_awaited(self) -> bool:
        """Whether the runs above still wait for this one; otherwise it was called off and needs nothing."""
        return self._above is None or (self._attempt in self._above._attempts and self._above.is_awaited)

    def apply(self, record: r.Record) -> None:
        """Apply the next record."""
        match record:
            case r.RunStarted(plan=plan) | r.ConfigChanged(plan=plan) | r.PlanReloaded(plan=plan):
                self._read(plan)
                self.open.pop(r.CONFIG, None)
                if isinstance(record, r.ConfigHeld) and record.held:
                    answers, id = r.ATTENTION_ANSWERS[r.CONFIG], _address(self.run, r.CONFIG)
                    command = answer_command(self.run, id, answers)
                    self._add(r.CONFIG, r.CONFIG, record, held_back(record), command, answers=answers)
            case r.OperatorSaid(what="take" | "keep"):
                self.open.pop(r.CONFIG, None)
            case r.RunOwned():
                self.open = {id: one for id, one in self.open.items() if one.turn or id == r.CONFIG}
            case r.RunStopped(reason=reason) if (
                reason.startswith(QUOTA) and self._above is None
            ):  # its child runs stop with it
                command = f"coterie resume --when-open {self.run}"
                self._add("quota", "quota", record, sentence(record), command)
            case r.RunFinished():
                self.open.clear()
                self._attempts.clear()
            case r.RunReopened():
                for id in record.below:
                    if "/" not in id:
                        self._begin(id, "")
            case r.TurnStarted():
                self._start(record)
            case (
                r.TurnFinished()
                | r.TurnFailed()
                | r.TurnCancelled()
                | r.AttemptFailed()
                | r.OperatorSaid(what="retry" | "cancel" | "allow" | "deny")
            ):
                self._end(record.turn)
            case r.AttemptInterrupted():
                self._interrupt(record)
            case r.AttentionAsked():
                self._open(record.id, attention_of(self.run, record))
            case r.AttentionAnswered():
                self._asked = self.open.pop(record.id, None)
            case r.TreeMerged():
                self.conflicts.pop(record.branch, None)
                if record.status != "merged":
                    self._conflict(record.branch, record, sentence(record), self.run)
            case r.TreesJoined():
                for kept in record.kept:
                    why = f"conflicts in {listed(kept.files)}" if kept.files else kept.reason
                    text = f"the work on {kept.branch} was kept, not merged: {why}"
                    self._conflict(kept.branch, record, text, f"{self.run}/{PurePath(kept.path).parent.name}")

    def _read(self, plan: str) -> None:
        """Read from *plan* which agents are humans; a child run without a plan uses a part of its parent's."""
        with suppress(ValueError):
            if plan:
                self._agents = from_json(plan).agents
        if self._agents is None and self._above is not None and self._attempt in self._above._teams:
            self._agents = self._above._teams[self._attempt].agents

    def _start(self, record: r.TurnStarted) -> None:
        self._end(record.turn)
        id, agent = attempt_id(record.turn, record.attempt), (self._agents or {}).get(record.agent)
        self._begin(id, record.agent)
        if agent is not None and agent.child is not None:
            self._teams[id] = agent.child
        if agent is not None and agent.kind == "human":
            due = None if agent.timeout is None else record.at + agent.timeout
            text, command = f"{record.turn} asks a question", respond_command(self.run, record.turn)
            self._add(record.turn, "question", record, text, command, due=due, policy="fail" if due else "")

    def _interrupt(self, record: r.AttemptInterrupted) -> None:
        name = self._attempts.get(attempt_id(record.turn, record.attempt), "")
        self._end(record.turn)
        agent = (self._agents or {}).get(name)
        asks = record.reason != "interrupted" and agent is not None and agent.on_interrupt == "ask"
        parked = record.reason == r.PARKED
        if asks or parked:
            known, rule = r.PARKED_DECISIONS if parked else r.DECISIONS, self._asked.rule if self._asked else ""
            answers = tuple(word for word in known if rule or word not in r.LASTING)
            command = answer_command(self.run, _address(self.run, record.turn), answers)
            text = f"{sentence(record)}; it is tried again only if a person allows it"
            if parked and self._asked:
                text = f"{self._asked.text}; no answer came in time, and the turn waits for one"
            self._add(record.turn, "parked", record, text, command, answers=answers, rule=rule if parked else "")

    def _end(self, turn: str) -> None:
        """Drop the requests of *turn*, whose attempt has ended; empty: those of the run as a whole."""
        for id in self._attempts_of.pop(turn, ()):
            self._attempts.pop(id, None)
        for id in self._of_turn.pop(turn, ()):
            if id in self.open and self.open[id].turn == turn:
                del self.open[id]

    def _begin(self, id: str, agent: str) -> None:
        self._attempts[id] = agent
        self._attempts_of.setdefault(id.rpartition(".")[0], []).append(id)

    def _open(self, id: str, one: Attention) -> None:
        self.open[id] = one
        self._of_turn.setdefault(one.turn, []).append(id)
        self.opened.append(one)

    def _add(self, name: str, kind: str, record: r.Record, text: str, command: str, **more: Any) -> None:
        turn = getattr(record, "turn", "")
        id = _address(self.run, name)
        one = Attention(kind=kind, run=self.run, id=id, turn=turn, since=record.at, text=text, command=command)
        self._open(name, msgspec.structs.replace(one, **more))

    def _conflict(self, branch: str, record: r.Record, text: str, run: str) -> None:
        self.conflicts[branch] = Attention(
            kind="conflict",
            run=run,
            id=branch,
            since=record.at,
            text=text,
            command=f"coterie worktree merge {shlex.quote(run)}",
        )
