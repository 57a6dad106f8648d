"""Verdicts on messages to a run: who sent it, whether it counts, and which record it becomes."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from coterie.agents.backends.agentside import delivery
from coterie.agents.backends.processes import is_within
from coterie.agents.workspace import notes
from coterie.base.ids import child_run_id
from coterie.execution.kernel.commands import Turn, refusal
from coterie.execution.kernel.driven_run import DrivenRun
from coterie.execution.kernel.fold import Fold
from coterie.execution.kernel.shell import Shell
from coterie.execution.runs.messages import UNREADABLE, WAITS, RunMessage, Verdict, verdict
from coterie.execution.runs.messages.tokens import Tokens
from coterie.history.engines.commands import Emit, Reply
from coterie.history.journal import records as r
from coterie.history.views.words import respond_command

OF_AGENTS = frozenset({"emit", *notes.COLLECTIONS})
"""The kinds of messages that an attempt may send; only an operator may send others."""


STOPPED = "by an operator"
"""The reason of a run that `coterie control stop` stopped."""


class Sender(Struct, frozen=True):
    """The sender of a message: `agent` or `operator`, and the problem with it, if there is one.

    Without proof of an operator, the sender counts as an agent: that of the attempt, or one that began the run.
    """

    source: str
    problem: str = ""


def sender_of(
    message: RunMessage, root: str, tokens: Tokens, marks: Sequence[str] | None = (), begun_by: Sequence[str] = ()
) -> Sender:
    """Return the sender of *message* to the run *root*.

    Args:
        marks: The attempts in which the sending process runs, the innermost first; None: not known.
        begun_by: The attempts in which the run was begun; they may act as its operator.
    """
    if message.kind == UNREADABLE:
        return Sender("agent", message.text)
    if message.attempt:
        below, _, turn = message.turn.rpartition("/")
        run = f"{root}/{below}" if below else root
        named = child_run_id(run, turn, message.attempt)
        problem = ""
        if not tokens.match(message.token, tokens.attempt(run, turn, message.attempt, message.epoch)):
            problem = f"it does not carry the token of {named}: call `coterie` as the attempt finds it on its PATH"
        elif marks and not is_within(marks[:1], [named]):
            problem = f"a process of {marks[0]} sent it in the name of {named}"
        elif message.kind not in OF_AGENTS:
            problem = f"only an operator may send {message.kind!r}, and an agent sent it"
        return Sender("agent", problem)
    within = [*(marks or ()), *filter(None, [message.by])]
    if not is_within(within, begun_by):
        return Sender("agent", f"a process of the attempt {within[0]} sent it, and an agent is not the operator")
    if not tokens.match(message.token, tokens.operator(message.signed)):
        return Sender("agent", "it carries neither an attempt's token nor an operator's signature: use `coterie`")
    if marks is None:
        return Sender("agent", "the process that sent it cannot be determined, so it may be an agent's: send it again")
    return Sender("agent" if within else "operator")


def take(
    shell: Shell, message: RunMessage, now: float, sender: Sender, *, late: bool = False
) -> tuple[DrivenRun, Verdict]:
    """Judge *message* and record it in one step; the verdict counts once the record is durable.

    Args:
        late: The message was sent before the owner's takeover, which is in progress.
    """
    message = shell.tree.secrets.hide_fields(message, "text", "outputs", "event", "payload", "note")
    live, turn = _addressee(shell, message)
    for one in shell.runs.values():
        if (refused := one.core.messages.get(message.id)) is not None:
            return one, verdict(refused)
    if _is_due(live, message):
        return live, Verdict(status=delivery.CHECKING)
    if live.core.finished is not None:
        return live, Verdict(status="refused", detail="the run is over")
    if live.core.stopped and not late:
        return live, Verdict(status="queued", detail=f"its owner is releasing the run; {WAITS}")
    problem, said = sender.problem, ""
    if not problem:
        problem, said = _follow(shell, live, turn, message, now, sender.source, late)
    if not problem and _is_due(live, message):
        return live, Verdict(status=delivery.CHECKING)
    if problem and message.id not in live.core.messages:
        hide = shell.tree.secrets.hide
        refused_now = r.MessageRefused(message=message.id, reason=hide(problem), turn=hide(turn))
        live.core.write(now, refused_now, source=sender.source)
    return live, verdict(problem, said)


def _is_due(live: DrivenRun, message: RunMessage) -> bool:
    """Whether the verdict on *message* waits for gates."""
    return any(held.due.brought_by == message.id for held in live.core.gated.values())


def _follow(
    shell: Shell, live: DrivenRun, turn: str, message: RunMessage, now: float, source: str, late: bool
) -> tuple[str, str]:
    """Carry out *message*; return the problem, if there is one, and the detail of an accepted verdict."""
    match message.kind:
        case "answer" | "permit" if turn == r.CONFIG:
            return _decide_config(live, message, now), ""
        case "answer":
            return _answer(shell, live, turn, message, source), ""
        case "permit":
            return shell.approvals.answer(live, turn, message.text.strip(), message.id, source), ""
        case "setting":
            if not live.kind.project.changes:
                return "only a loop reads its settings again", ""
            word = r.OperatorSaid(message=message.id, what="change", turn=r.CONFIG, text=message.text)
            live.core.write(now, word, source=source)
            return "", ""
        case "emit":
            return _emit(shell, live, turn, message, source, late), ""
        case "memory" | "task":
            return _note(shell, live, turn, message, now, source)
        case "interrupt":
            word = r.OperatorSaid(message=message.id, what="interrupt", turn=turn)
            if shell.approvals.interrupt(live, word, source):
                return "", ""
            return f"turn {turn!r} is not running" if turn else "no turn is running", ""
        case "stop" if late:
            return "no process drove the run when it was sent", ""
        case "stop":
            live.core.write(now, r.OperatorSaid(message=message.id, what="stop"), source=source)
            shell.stop(STOPPED)
            return "", ""
        case "guide":
            return _guide(shell, live, turn, message, now, source)
        case _:
            return f"unknown kind of message: {message.kind!r}", ""


def _addressee(shell: Shell, message: RunMessage) -> tuple[DrivenRun, str]:
    """The run and the turn that *message* is for; the root run if they are unknown."""
    root = next(iter(shell.runs.values()))
    if message.kind == "guide" and len(targets := guided(shell, message)) == 1:
        return targets[0]
    if message.kind == "answer" and (asking := _questions(shell).get(addressed(message.turn, _questions(shell)))):
        return asking
    if message.kind == "permit":
        requests = {_address(live, id): (live, id) for live in shell.runs.values() for id in live.core.attention}
        if request := requests.get(addressed(message.turn, requests)):
            return request
    below, _, turn = message.turn.rpartition("/")
    if below:
        found = shell.runs.get(f"{root.run}/{below}")
        return (found, turn) if found is not None else (root, message.turn)
    return root, turn


def _decide_config(live: DrivenRun, message: RunMessage, now: float) -> str:
    """Apply an operator's decision on held-back settings; return why it is not valid, or an empty text."""
    word, words = message.text.strip(), r.ATTENTION_ANSWERS[r.CONFIG]
    if not live.core.held_back:
        return "no setting is held back, or an operator has decided on it"
    if word not in words:
        return f"{word!r} is no answer: write {' or '.join(words)}"
    live.core.write(now, r.OperatorSaid(message=message.id, what=word, turn=r.CONFIG), source="operator")
    return ""


def _questions(shell: Shell) -> dict[str, tuple[DrivenRun, str]]:
    """The turns that wait for a human's answer, by address, each with its run."""
    return {_address(live, one.ask.turn): (live, one.ask.turn) for live in shell.runs.values() for one in live.humans()}


def _answer(shell: Shell, live: DrivenRun, turn: str, message: RunMessage, source: str) -> str:
    """Pass a human's answer to the turn that waits for it; return the problem, if it cannot be used."""
    asking = {one.ask.turn: one for one in live.humans()}
    if turn not in asking:
        return not_asking(live.root, message.turn, _questions(shell))
    if asking[turn].held is not None:
        return shell.approvals.decide(live, turn, message.text, message.id, source)
    if problem := unknown_outputs(live.core, live.core.turns[turn], message):
        return problem
    attempt = asking[turn].attempt
    reply = Reply(turn=turn, attempt=attempt, text=message.text, outputs=message.outputs, message=message.id)
    reply = replace(reply, open_tasks=_open_tasks(shell, live, reply))
    judged = live.core.engine.judge(reply)
    if isinstance(judged, r.AttemptFailed):
        return judged.reason
    shell.inputs.accept(live, reply, source)
    return ""


def unknown_outputs(fold: Fold, turn: Turn, message: RunMessage) -> str:
    """The problem with the outputs of an answer to *turn*, if some were not asked for; else empty."""
    agent = fold.agents.get(turn.ask.role)
    wanted = [one.name for one in turn.ask.wanted or (agent.outputs if agent is not None else ())]
    known = {name.lower() for name in wanted}
    unknown = [name for name in message.outputs or () if name.lower() not in known]
    if not wanted or not unknown:
        return ""
    return f"unknown output {unknown[0]!r}; {turn.ask.turn} asks for: {', '.join(wanted)}"


def addressed(turn: str, asking: Iterable[str]) -> str:
    """The address of the question that *turn* means, among the addresses *asking*.

    Without a turn (empty, or the run's address and a slash) this is the only question of the run and its child runs; if
    there are none or several, it is *turn* itself.
    """
    found = [one for one in asking if one.startswith(turn)] if turn.endswith("/") or not turn else []
    return found[0] if len(found) == 1 else turn


def not_asking(run: str, turn: str, asking: Iterable[str]) -> str:
    """The problem with an answer for *turn* of the root run *run* if only the turns *asking* wait for one."""
    known = list(asking)
    if not known:
        return "no turn is waiting for an answer"
    which = respond_command(run, known[0]) if len(known) == 1 else f"coterie control respond {run} TURN TEXT"
    problem = f"turn {turn!r} is not waiting for an answer; waiting turns"
    if turn.endswith("/") or not turn:
        problem = "say which turn the answer is for"
    return f"{problem}: {', '.join(known)}; answer with: {which}"


def _guide(shell: Shell, live: DrivenRun, turn: str, message: RunMessage, now: float, source: str) -> tuple[str, str]:
    """Record an operator's guidance; return the problem, if any, and how it will be delivered."""
    if not message.text.strip():
        return "the guidance is empty", ""
    if (live, turn) not in (found := guided(shell, message)):
        running = ", ".join(_address(*one) for one in found or guided(shell))
        if not running:
            return "no turn that takes guidance is running", ""
        problem = "several turns are running" if found else f"turn {message.turn!r} is not running"
        return f"{problem}; say which turn the guidance is for: {running}", ""
    said = r.OperatorSaid(message=message.id, what="guide", turn=turn, text=message.text.strip())
    shell.approvals.guide(live, said, now, source)
    if live.kind.project.keeps_guidance:
        return "", ""
    where = f"the next attempt of {_address(live, turn)}, or the next turn of {live.core.turns[turn].ask.role}"
    return "", f"delivered at once if the backend can be steered, else to {where}"


def guided(shell: Shell, message: RunMessage | None = None) -> list[tuple[DrivenRun, str]]:
    """The turns that the guidance *message* may be for, each with its run; without a message, all that take guidance.

    For a turn that is a child run, these are the turns running in it. A run whose engine keeps guidance takes it as a
    whole, given as an empty turn, unless the message names one of its turns.
    """
    root = next(iter(shell.runs.values()))
    if message is None or not message.turn:
        return list(_guidable(root))
    below, _, name = message.turn.rpartition("/")
    live = shell.runs.get(f"{root.run}/{below}" if below else root.run)
    if live is not None and not name:
        return list(_guidable(live))
    if live is None:
        return []
    its = [turn for id, turn in live.core.turns.items() if live.core.is_part(id, name)]
    return [one for turn in its for one in _guidable_turn(live, turn)]


def _guidable(live: DrivenRun) -> Iterator[tuple[DrivenRun, str]]:
    if live.kind.project.keeps_guidance:
        yield live, ""
    elif live.core.finished is None and not live.core.called_off:
        for turn in live.core.turns.values():
            yield from _guidable_turn(live, turn)


def _guidable_turn(live: DrivenRun, turn: Turn) -> Iterator[tuple[DrivenRun, str]]:
    name = turn.ask.turn
    if (child := live.children.get(child_run_id(live.run, name, turn.attempt))) is not None:
        yield from _guidable(child)
    elif turn.status != "ended" and live.core.kind(turn.ask.agent) != "human":
        yield live, name


def _address(live: DrivenRun, turn: str) -> str:
    """The address of *turn* of *live* in a message; without a turn, that of the turn that *live* performs."""
    if not turn and live.parent is not None:
        live, turn = live.parent[0], live.turn
    below = live.run.partition("/")[2]
    return f"{below}/{turn}" if below else turn


def _emit(shell: Shell, live: DrivenRun, turn: str, message: RunMessage, source: str, late: bool) -> str:
    """Accept an event, outputs, or both, from a running turn; return the problem, if they do not count."""
    attempt = message.attempt
    if not turn:
        running = [(one, turn) for one in shell.runs.values() for turn in one.core.turns.values() if _works(one, turn)]
        if len(running) != 1:
            return f"an event belongs to a turn, and {len(running) or 'none'} of them run now: emit it from within one"
        live, turn, attempt = running[0][0], running[0][1].ask.turn, running[0][1].attempt
    elif stale := _stale(live, turn, message):
        return stale
    name = message.id
    if message.event or not message.outputs:
        if (held := live.core.turns[turn].gated) is not None:
            return f"the gates of {held.due.event or 'its answer'} are still running: wait for their verdict"
        emit = Emit(turn=turn, attempt=attempt, event=message.event, payload=message.payload, message=message.id)
        emit = replace(emit, open_tasks=_open_tasks(shell, live, emit))
        record = shell.inputs.accept_late(live, emit) if late else shell.inputs.accept(live, emit, source)
        if record is None:
            return f"attempt {turn}.{attempt} is over (stale)"
        if refused := refusal(record):
            return refused
        name = "" if isinstance(record, r.GatesDue) else name  # the verdict on its event is pending
    if message.outputs:
        given = r.OutputsGiven(turn=turn, attempt=attempt, outputs=message.outputs, message=name)
        live.core.write(live.core.at, given, source=source)
    return ""


def _open_tasks(shell: Shell, live: DrivenRun, said: Reply | Emit) -> tuple[str, ...]:
    """The open tasks, if the verdict on *said* may depend on them."""
    settings = live.kind.project.notes
    if settings is None or settings.of_parent or not live.kind.project.needs_open_tasks(said):
        return ()
    files = shell.tree.ports.notes.files(live.run, settings, "task")
    return notes.Tasks.of(files).blocking() if files is not None else ()


def _works(live: DrivenRun, turn: Turn) -> bool:
    return turn.status == "running" and live.core.takes_a_slot(turn.ask.agent)


def _stale(live: DrivenRun, turn: str, message: RunMessage) -> str:
    """Why *message* no longer counts; empty if it does."""
    if message.attempt and not live.core.counts(turn, message.attempt, message.epoch):
        return f"attempt {turn}.{message.attempt} is over (stale)"
    return ""


def _note(shell: Shell, live: DrivenRun, turn: str, message: RunMessage, now: float, source: str) -> tuple[str, str]:
    """Record a change of memory or tasks; return the problem, if any, and the reply to the sender."""
    if stale := _stale(live, turn, message):
        return stale, ""
    files = shell.tree.ports.notes.files(live.run, live.kind.project.notes, message.kind)
    if files is None:
        return "this run keeps nothing on disk", ""
    try:
        change = notes.COLLECTIONS[message.kind].of(files).change(message.note, message.id, now)
    except notes.InvalidChange as why:
        return str(why), ""
    kind = r.MemoryChanged if message.kind == "memory" else r.TaskChanged
    record = kind(message=message.id, turn=turn, entries=change.run, project=change.project)
    live.core.write(now, record, source=source)
    return "", change.said


def keep(shell: Shell, live: DrivenRun, message: RunMessage) -> None:
    """Write the durable change of memory or tasks that *message* made to its files.

    If the owner died in between, the message comes again; entries that the files contain are not written twice.
    """
    record = live.core.notes.get(message.id)
    if (
        record is not None
        and (files := shell.tree.ports.notes.files(live.run, live.kind.project.notes, message.kind)) is not None
    ):
        files.add(notes.NoteChange(said="", run=record.entries, project=record.project))


def restore_notes(shell: Shell, live: DrivenRun) -> None:
    """Write the memory and the tasks of *live* to its files."""
    for kind, record in (("memory", r.MemoryChanged), ("task", r.TaskChanged)):
        known = tuple(entry for one in live.core.notes.values() if isinstance(one, record) for entry in one.entries)
        if known and (files := shell.tree.ports.notes.files(live.run, live.kind.project.notes, kind)) is not None:
            files.add(notes.NoteChange(said="", run=known))
