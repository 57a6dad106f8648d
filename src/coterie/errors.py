"""The errors that coterie raises on purpose.

* CoterieError
  - TopologyError          a topology is invalid or cannot run
  - NoSuchRun              there is no run with that id
  - RunExists              a run with that id exists, and is another one
  - RunIsOwned             another process owns the run, or a cluster drives it
  - NotTheOperator         a process of an attempt tries what only the operator may do
  - RunIsFinished          the run has finished and cannot be continued
  - RetryRefused           the run cannot be retried: nothing failed it that could be repeated
  - ThreadBusy             the latest run of a thread has not ended
  - NoSuchTurn             the run has no turn with that name
  - JournalUnreadable      a journal is damaged, or written by a newer coterie
  - JournalFailed          a journal could not be written
    - Fenced               another process took over the run
    - RunDeleted           the run's folder was deleted during the run
  - ClusterFailed          the server or the export of a cluster cannot be reached, or refused a request
  - NotSigned              what came through a cluster's server is signed by no key that counts
  - ExportConflict         another owner of the run has written another record with that number into the export
  - Shortage               the machine lacks space, file descriptors or memory
  - GitFailed              a git command failed
  - ReplayMismatch         the engine decides differently from the journal
  - RowsFailed             the rows of runs could not be written to their database
  - ExtraMissing           a library of an optional extra is not installed
  - PatternRefused         a pattern, its slots, settings or input is invalid
  - CollaborationFailed    too many failures for the pattern to continue
  - CallFailed             a call of a model failed
  - Unconfined             an attempt requires a sandbox, and none holds
  - ToolFailed             a tool of an agent cannot be called, or raised an exception
  - PluginError            a plugin cannot be found, imported or constructed
  - StateFailed            a store of states cannot be read or written
  - StateRefused           the state of an agent is not plain data and was not stored
  - ActorError             a message to an agent has no answer, or cannot be sent
    - AgentCrashed         the agent crashed while it handled the ask
    - AgentStopped         the agent has stopped and does not start again
    - NoSuchAgent          there is no agent with that name
    - WorkerLost           the worker process that hosts the agent is gone
    - PayloadRefused       the payload of a message to another process is not plain data, or too large
    - MailboxFull          the mailbox is full, and waiting for room would never end
    - AskCycle             the ask would close a cycle of agents that wait for each other
    - AskTimedOut          the agent did not answer in time
    - HandleTimedOut       an agent's handler took longer than its `handle_timeout`
    - SpawnError           an agent cannot be started by another one, at this place or at all
  - TurnFailure            raised by an agent in Python: its turn failed, and the agent lives
  - ClassNotFound          a class, or a function, of a user cannot be imported
  - CannotStart            a system cannot be started as it is planned
  - UsageError             a command was called with invalid arguments
    - CodeMissing          the code that decides in a run cannot be imported here
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from coterie.base.diagnostics import Diagnostic, did_you_mean
from coterie.base.escapes import printable
from coterie.base.shortages import ReportsShortage, names_shortage
from coterie.base.user_code import error_line as error_line


class CoterieError(Exception):
    """Base class of all errors."""


class TopologyError(CoterieError):
    """A topology is invalid or cannot run; contains all diagnostics."""

    def __init__(self, diagnostics: Sequence[Diagnostic], text: str = "") -> None:
        self.diagnostics, self.text = tuple(diagnostics), text
        super().__init__("".join(diagnostic.render(text) for diagnostic in self.diagnostics).rstrip("\n"))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form: `file, valid, diagnostics`."""
        file = self.diagnostics[0].file if self.diagnostics else ""
        return {"file": file, "valid": False, "diagnostics": [one.to_dict() for one in self.diagnostics]}


class NoSuchRun(CoterieError):
    """There is no run with that id."""

    def __init__(self, run: str, known: Iterable[str] = ()) -> None:
        self.run = run
        if run == "last":
            message = "no run was started in this directory; `coterie runs --all` lists those of others"
        else:
            hint = did_you_mean(run, ("last", *known)) or "`coterie runs --all` lists them"
            message = f"there is no run {run!r}; {hint}"
        super().__init__(message)


class RunIsOwned(CoterieError):
    """Another process owns the run, or a cluster drives it."""

    def __init__(self, run: str, place: str = "", *, cluster: str = "") -> None:
        self.run = run
        super().__init__(
            f"run {run!r} is driven by the cluster {cluster}; wait for it, or end its workflow (`temporal workflow "
            f"terminate --workflow-id {run}`), then resume"
            if cluster
            else f"run {run!r} is owned by a living process"
            + (f" (it holds {place})" if place else "")
            + "; wait for it, or stop it with Ctrl-C there, then resume"
        )


class ThreadBusy(CoterieError):
    """The latest *run* of a thread has not ended, or, if that is empty, another one is just beginning.

    *is_driven*: A process works on it, so that it will end.
    """

    def __init__(self, run: str, why: str, *, is_driven: bool = True) -> None:
        self.run, self.why, self.is_driven = run, why, is_driven
        super().__init__(f"{why}; with --wait the message waits")


class NotTheOperator(CoterieError):
    """A process of an attempt tries what only the operator may do."""

    def __init__(self, attempt: str) -> None:
        super().__init__(
            f"this process belongs to the attempt {attempt}, and an agent is not the operator: "
            "ask the operator to run this command outside of the run"
        )


class RunExists(CoterieError):
    """A run with that id exists, and is another one."""

    def __init__(self, run: str, why: str) -> None:
        self.run = run
        super().__init__(f"run {run!r} exists: {why}; `coterie inspect {run}` shows it, or choose another id")


class RunIsFinished(CoterieError):
    """The run has finished and cannot be continued."""

    def __init__(self, run: str, outcome: str) -> None:
        self.run, self.outcome = run, outcome
        retry = f"`coterie resume {run} --retry` retries what failed it; "
        can = retry if outcome == "failed" else "it cannot be continued; "
        super().__init__(f"run {run!r} has {outcome}: {can}`coterie inspect {run}` shows it")


class RetryRefused(CoterieError):
    """A run cannot be retried, as what failed it is not to be repeated, or it did not fail. *line* says what can be."""

    def __init__(self, run: str, reason: str, line: str) -> None:
        self.run, self.reason, self.line = run, reason, line
        super().__init__(f"run {run!r} cannot be retried: {reason}; {line}")


class NoSuchTurn(CoterieError):
    """The run has no turn with that name."""

    def __init__(self, run: str, turn: str, known: Iterable[str] = ()) -> None:
        self.run, self.turn, self.known = run, turn, tuple(known)
        hint = did_you_mean(turn, self.known) or f"it has {', '.join(self.known) or 'none yet'}"
        super().__init__(f"run {run!r} has no turn {turn!r}; {hint}")


class JournalUnreadable(CoterieError):
    """A journal is damaged, or written by a newer coterie; nothing was changed."""

    def __init__(self, place: str, line: int, reason: str) -> None:
        self.place, self.line, self.reason = place, line, reason
        super().__init__(f"{place}:{line}: this journal cannot be read: {reason}; nothing was changed")


class JournalFailed(CoterieError):
    """A journal could not be written. The process no longer owns the run; the journal on disk is still readable.

    Args:
        began: Whether the run has records on disk and can be resumed.
    """

    def __init__(self, run: str, reason: str, *, began: bool = True) -> None:
        self.run, self.reason = run, reason
        then = (
            f"the run is stopped: fix that, then `coterie resume {run.split('/')[0]}`"
            if began
            else "the run never began: fix that, or choose another --state-dir, then start it again"
        )
        super().__init__(f"the journal of run {run!r} could not be written ({reason}); {then}")


class Fenced(JournalFailed):
    """Another process took over the run."""

    def __init__(self, run: str) -> None:
        super().__init__(run, "another process took it over")


class RunDeleted(JournalFailed):
    """The run's folder was deleted during the run."""

    def __init__(self, run: str, folder: object) -> None:
        super().__init__(run, f"{folder} is gone")
        self.args = (
            f"the folder {folder} of run {run!r} was deleted while the run was going on, for example by "
            "`git clean -fdx`; its journal is gone, so it cannot be resumed: start it again, and exclude the state "
            "directory (`git clean -fdx -e .coterie`), or keep it elsewhere (--state-dir)",
        )


class ClusterFailed(CoterieError):
    """The server that drives the runs of a cluster, or its export, cannot be reached or refused a request.

    Args:
        place: Which of them, without passwords.
    """

    def __init__(self, place: str, reason: str, hint: str = "") -> None:
        self.place, self.reason = place, reason
        super().__init__(f"{place}: {reason}" + (f"; {hint}" if hint else ""))


class NotSigned(CoterieError):
    """What came through a cluster's server carries no signature that counts.

    Args:
        about: Its purpose, and what else the signature must cover; empty: it is not even readable.
        keys: The public keys that sign it.
        is_known: Whether one of them is trusted: it signed something else.
    """

    def __init__(self, about: tuple[str, ...], keys: tuple[str, ...] = (), *, is_known: bool = False) -> None:
        self.about, self.keys = about, keys
        what = about[0] if about else "value"
        if is_known or not keys:
            why = "was copied from elsewhere, or changed" if is_known else "carries no signature"
            super().__init__(f"a {what} from the cluster's server {why}: no program with a key of the cluster made it")
        else:
            shown = printable(keys[0])[:64]
            hint = f"`coterie cluster key trust {shown}` trusts it, if it is yours"
            super().__init__(f"a {what} from the cluster's server is signed with the unknown key {shown}; {hint}")


class ExportConflict(CoterieError):
    """Another owner of the run has written another record with that number into the export."""

    def __init__(self, run: str, seq: int) -> None:
        self.run, self.seq = run, seq
        super().__init__(f"run {run!r} has another record {seq} in the export: another owner drives it")


class Shortage(CoterieError, ReportsShortage):
    """The machine lacks space, file descriptors or memory; the run stops and can be resumed.

    Args:
        lacks: The missing resource, and where.
    """

    def __init__(self, lacks: str) -> None:
        self.lacks = lacks
        super().__init__(f"{lacks}; the run is stopped: provide what is missing, then resume it")


class GitFailed(CoterieError, ReportsShortage):
    """A git command failed."""

    def __init__(self, words: Sequence[str], status: int, said: str) -> None:
        self.words, self.status, self.said = tuple(words), status, said.strip()
        lines = [line.strip() for line in self.said.splitlines() if line.strip()]
        super().__init__(f"git {words[0]} failed ({status}): {'; '.join(lines[:3]) or 'no reason given'}")
        self.lacks = str(self) if names_shortage(self.said) else ""


class ReplayMismatch(CoterieError):
    """The engine decides differently from the journal.

    Attributes:
        seq: The first record that differs.

    Args:
        hint: The cause and solution, if it is not another version of the engine.
        why: The cause, if the solution is to go on from the last record on which both agree.
    """

    def __init__(self, run: str, seq: int, found: str, wanted: str, hint: str = "", why: str = "") -> None:
        self.run, self.seq, self.found, self.wanted = run, seq, found, wanted
        super().__init__(
            f"run {run!r}, record {seq}: the journal says {found}, today's engine wants {wanted}; "
            + (hint or (why or "the run was decided by another version or plan") + _go_on_before(run, seq))
        )


def _go_on_before(run: str, seq: int) -> str:
    root, nested, _ = run.partition("/")
    if nested:
        return f"; `coterie inspect {root}` shows where to fork it before that child run began"
    return f"; `coterie fork {run} --at {seq - 1}` goes on from the last record on which both agree" if seq > 1 else ""


class RowsFailed(CoterieError):
    """The rows of runs could not be written to their database; the runs are complete."""

    def __init__(self, place: str, reason: str, hint: str = "") -> None:
        self.place, self.reason = place, reason
        hint = hint or "`await coterie.patterns.project(RUN, …)` writes those of a run again, from its journal"
        super().__init__(f"rows could not be written to {place}: {reason}; {hint}")


class ExtraMissing(CoterieError, ImportError):
    """A library of an optional extra, which *wanted* needs, is not installed."""

    def __init__(self, extra: str, library: str, wanted: str) -> None:
        self.extra, self.library, self.wanted = extra, library, wanted
        super().__init__(f"{wanted} needs {library!r}, which is not installed: pip install 'coterie[{extra}]'")


class PatternRefused(CoterieError, ValueError):
    """A pattern, its slots, settings or input is invalid; raised before any backend is called."""


class CollaborationFailed(CoterieError, RuntimeError):
    """Too many failures for the pattern to continue."""


class CallFailed(CoterieError, RuntimeError):
    """A call of a model failed; raised by model backends.

    Args:
        kind: One of `coterie.agents.backends.base.FAILURES` but `interrupted`: `rate_limited` and `transient` are
        retried
            after a delay.
        wait: Retry-After in seconds, if given.
        usage: What the call used nevertheless: `input_tokens`, `output_tokens` and `cost`, as in a response.
    """

    def __init__(
        self, reason: str, kind: str = "failed", wait: float = 0.0, usage: Mapping[str, Any] | None = None
    ) -> None:
        self.kind, self.reason, self.wait, self.usage = kind, reason, wait, usage or {}
        super().__init__(reason)


class Unconfined(CoterieError):
    """An attempt requires a sandbox, and none holds, or its program needs one; the message says why."""


class ToolFailed(CoterieError):
    """A tool of an agent cannot be called, or raised an exception."""

    def __init__(self, tool: str, reason: str) -> None:
        self.tool, self.reason = tool, reason
        super().__init__(f"the tool {tool!r}: {reason}")


class PluginError(CoterieError):
    """A plugin cannot be found, imported or constructed.

    Args:
        kind: `model`, `tool`, `exporter` or `state`.
        name: Its type, as the file or the program names it.
        place: Where it is declared: `plugins.models.0`, or a key of its config; empty if that is not a file.
    """

    def __init__(self, kind: str, name: str, reason: str, hint: str = "", *, place: str = "") -> None:
        self.kind, self.name, self.reason, self.hint, self.place = kind, name, reason, hint, place
        head = f"{place}: " if place else ""
        super().__init__(f"{head}{kind} plugin {name!r}: {reason}" + (f"; {hint}" if hint else ""))


class StateFailed(CoterieError):
    """A store of states cannot be read or written; what it holds is unchanged.

    Args:
        store: The database, or the class of the store.
    """

    def __init__(self, store: object, reason: str, hint: str = "") -> None:
        self.store, self.reason = str(store), reason
        super().__init__(f"the state store {store}: {reason}" + (f"; {hint}" if hint else ""))


class StateRefused(CoterieError, TypeError):
    """The state of an agent is not plain data and was not stored.

    Args:
        fault: The place in the state, and what it contains.
    """

    def __init__(self, agent_name: str, fault: str) -> None:
        self.agent_name, self.fault = agent_name, fault
        super().__init__(f"the state of agent {agent_name!r} cannot be stored: {fault}")


class ActorError(CoterieError):
    """A message to an agent has no answer, or cannot be sent."""

    def __init__(self, agent: str, message: str) -> None:
        self.agent = agent
        super().__init__(message)


class AgentCrashed(ActorError):
    """The agent crashed while it handled the ask; its supervisor restarts it, the message is not delivered again.

    Attributes:
        error: The class and the message of the agent's exception, in a line.
        trace: Where it was raised, as Python writes it.
    """

    def __init__(self, agent: str, error: str, trace: str = "") -> None:
        self.error, self.trace = error, trace
        super().__init__(agent, f"agent {agent!r} crashed: {error}")


class AgentStopped(ActorError):
    """The agent has stopped and does not start again."""

    def __init__(self, agent: str, reason: str = "") -> None:
        self.reason = reason
        super().__init__(agent, f"agent {agent!r} has stopped" + (f": {reason}" if reason else ""))


class NoSuchAgent(ActorError):
    """There is no agent with that name."""

    def __init__(self, agent: str, known: Iterable[str] = ()) -> None:
        self.known = sorted(known)
        hint = did_you_mean(agent, self.known) if len(self.known) <= 1000 else ""  # more would take too long
        super().__init__(agent, f"there is no agent {agent!r}" + (f"; {hint}" if hint else ""))


class WorkerLost(ActorError):
    """The worker process that hosts the agent is gone."""

    def __init__(self, agent: str, process: str) -> None:
        self.process = process
        super().__init__(agent, f"agent {agent!r} is out of reach: its worker {process!r} was lost")


class PayloadRefused(ActorError, TypeError):
    """The payload of a message to another process is not plain data, or too large."""

    def __init__(self, agent: str, fault: str) -> None:
        self.fault = fault
        super().__init__(agent, f"the payload of a message to or from {agent!r} cannot be carried: {fault}")


class MailboxFull(ActorError):
    """The mailbox is full, and waiting for room would never end, since its agent waits for the sender."""

    def __init__(self, agent: str, size: int, chain: Sequence[str] = ()) -> None:
        self.size, self.chain = size, tuple(chain)
        why = f" ({' → '.join(self.chain)} wait for each other)" if len(self.chain) > 2 else ""
        super().__init__(agent, f"the mailbox of {agent!r} is full ({size} messages){why}; waiting would never end")


class AskCycle(ActorError):
    """The ask would close a cycle of agents that wait for each other."""

    def __init__(self, chain: Sequence[str]) -> None:
        self.chain = tuple(chain)
        super().__init__(chain[-1], f"agents would wait for each other for ever: {' → '.join(self.chain)}")


class AskTimedOut(ActorError, TimeoutError):
    """The agent did not answer in time."""

    def __init__(self, agent: str, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(agent, f"agent {agent!r} did not answer within {seconds:g} s")


class HandleTimedOut(ActorError, TimeoutError):
    """An agent's handler took longer than its `handle_timeout`."""

    def __init__(self, agent: str, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(agent, f"the handler of {agent!r} took longer than its handle_timeout of {seconds:g} s")


class TurnFailure(CoterieError):
    """Raised by an agent in Python: its turn failed, and the agent lives; the run decides about a retry.

    Args:
        kind: One of `coterie.agents.backends.base.FAILURES`.
    """

    def __init__(self, kind: str, reason: str) -> None:
        self.kind, self.reason = kind, reason
        super().__init__(reason)


class ClassNotFound(CoterieError):
    """A class, or a function, of a user cannot be imported."""

    def __init__(self, path: str, reason: str, what: str = "class") -> None:
        self.path, self.reason = path, reason
        super().__init__(f"cannot load {what} {path!r}: {reason}")


class CannotStart(CoterieError):
    """A system cannot be started as it is planned; nothing was started."""


class SpawnError(ActorError):
    """An agent cannot be started by another one, at this place or at all."""


class UsageError(CoterieError):
    """A command was called with invalid arguments."""


class CodeMissing(UsageError):
    """The code that decides in a run, a program or a pattern of its user, cannot be imported here."""
