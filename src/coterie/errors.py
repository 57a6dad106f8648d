"""Every error coterie raises on purpose.

* CoterieError
  - TopologyError        the file is wrong, or cannot be run as asked; carries diagnostics
  - NoSuchRun            nobody knows a run of that id
  - RunIsOwned           a living process runs it
  - RunIsFinished        it ended for good; it can be read, not continued
  - NoSuchTurn           the run has no turn of that name
  - JournalUnreadable    a journal is damaged, or written by a newer coterie
  - JournalFailed        a journal could not be written; this owner is over
    - Fenced             another owner took the run
  - GitFailed            git could not do what a run's files need
  - ReplayMismatch       today's engine decides otherwise than the journal says
  - RowsFailed           the rows of runs could not be written to their database
  - ExtraMissing         a library of an optional extra is not installed
  - PatternRefused       a pattern cannot be what a program asks it to be; a ValueError too
  - CollaborationFailed  a pattern could not do with the failures it had; a RuntimeError too
  - CallFailed           asking a model failed; a RuntimeError too
  - UsageError           a command was called in a way that cannot work
"""

from collections.abc import Iterable, Sequence

from coterie.diagnostics import Diagnostic, did_you_mean


class CoterieError(Exception):
    """Base of every error below, for callers that want one `except`."""


class TopologyError(CoterieError):
    """A topology is wrong, or cannot be run as asked: every finding at once."""

    def __init__(self, diagnostics: Sequence[Diagnostic], text: str = "") -> None:
        self.diagnostics = tuple(diagnostics)
        self.text = text
        super().__init__("".join(diagnostic.render(text) for diagnostic in self.diagnostics).rstrip("\n"))


class NoSuchRun(CoterieError):
    """Nobody knows a run of that id."""

    def __init__(self, run: str, known: Iterable[str] = ()) -> None:
        self.run = run
        super().__init__(f"there is no run {run!r}; {did_you_mean(run, known) or '`coterie runs` lists them'}")


class RunIsOwned(CoterieError):
    """A living process runs it."""

    def __init__(self, run: str, place: str = "") -> None:
        self.run = run
        super().__init__(
            f"run {run!r} is owned by a living process"
            + (f" (it holds {place})" if place else "")
            + "; wait for it, or stop it with Ctrl-C there, then resume"
        )


class RunIsFinished(CoterieError):
    """A finished run is read, never continued."""

    def __init__(self, run: str, outcome: str) -> None:
        self.run, self.outcome = run, outcome
        super().__init__(f"run {run!r} has {outcome}: `coterie inspect {run}` shows it; it cannot be continued")


class NoSuchTurn(CoterieError):
    """The run has no turn of that name."""

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
    """A journal could not be written: this owner of the run is over, and what is on disk still reads.

    Args:
        began: Whether there is something on disk that can be resumed.
    """

    def __init__(self, run: str, reason: str, *, began: bool = True) -> None:
        self.run, self.reason = run, reason
        then = (
            f"the run is stopped: mend that, then `coterie resume {run.split('/')[0]}`"
            if began
            else "the run never began: mend that, or choose another --state-dir, then start it again"
        )
        super().__init__(f"the journal of run {run!r} could not be written ({reason}); {then}")


class Fenced(JournalFailed):
    """Another owner took the run."""

    def __init__(self, run: str) -> None:
        super().__init__(run, "another process took it over")


class GitFailed(CoterieError):
    """Git could not do what the files of a run need."""

    def __init__(self, words: Sequence[str], status: int, said: str) -> None:
        self.words, self.status, self.said = tuple(words), status, said.strip()
        lines = [line.strip() for line in self.said.splitlines() if line.strip()]
        super().__init__(f"git {words[0]} failed ({status}): {'; '.join(lines[:3]) or 'it does not say why'}")


class ReplayMismatch(CoterieError):
    """Today's engine decides otherwise than the journal says it did.

    Attributes:
        seq: The first record that disagrees; the one before is the last that agrees.

    Args:
        hint: Why that may be, and what to do, when it is not another version of the engine.
    """

    def __init__(self, run: str, seq: int, found: str, wanted: str, hint: str = "") -> None:
        self.run, self.seq, self.found, self.wanted = run, seq, found, wanted
        super().__init__(
            f"run {run!r}, record {seq}: the journal says {found}, today's engine wants {wanted}; "
            + (hint or f"the run was decided by another version or plan{_go_on_before(run, seq)}")
        )


def _go_on_before(run: str, seq: int) -> str:
    root, nested, _ = run.partition("/")
    if nested:
        return f"; `coterie inspect {root}` shows where to fork it before that child run began"
    return f"; `coterie fork {run} --at {seq - 1}` goes on from the last record on which both agree" if seq > 1 else ""


class RowsFailed(CoterieError):
    """The rows of runs could not be written to their database; the runs themselves lack nothing."""

    def __init__(self, place: str, reason: str, hint: str = "") -> None:
        self.place, self.reason = place, reason
        hint = hint or "`await coterie.patterns.project(RUN, …)` writes those of a run again, from its journal"
        super().__init__(f"rows could not be written to {place}: {reason}; {hint}")


class ExtraMissing(CoterieError, ImportError):
    """A library that only an optional extra brings is not installed; *wanted* is what needs it."""

    def __init__(self, extra: str, library: str, wanted: str) -> None:
        self.extra, self.library, self.wanted = extra, library, wanted
        super().__init__(f"{wanted} needs {library!r}, which is not installed: pip install 'coterie[{extra}]'")


class PatternRefused(CoterieError, ValueError):
    """A pattern, its slots, its settings or what it is given is wrong: told before anybody is asked."""


class CollaborationFailed(CoterieError, RuntimeError):
    """A pattern could not do with the failures it had."""


class CallFailed(CoterieError, RuntimeError):
    """Asking a model failed; what asks it raises this to say how.

    Args:
        kind: One of `coterie.backends.base.FAILURES` but `interrupted`: `rate_limited` and `transient` are tried again
            after a while.
        wait: Seconds that whoever was asked wants to be left alone.
    """

    def __init__(self, reason: str, kind: str = "failed", wait: float = 0.0) -> None:
        self.kind, self.reason, self.wait = kind, reason, wait
        super().__init__(reason)


class UsageError(CoterieError):
    """A command was called in a way that cannot work."""
