"""The files of a loop's waves, for people: objectives and outputs of the branches, and the join.

<state_dir>/waves/<run>-wave-<n>/join.md                 objectives, outcomes, times and outputs
                                 branch-<k>/objective.md  log.txt  result.md  journal.jsonl

The files are written once records are durable, never read back, and written again by the next owner after a crash. The
journal of a branch is in the run's folder; `journal.jsonl` is its projection in the format of the earlier system.
"""

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from coterie.base import files
from coterie.base.ids import child_run_id
from coterie.errors import CoterieError
from coterie.execution.kernel.attempt_files import KeptPrompts
from coterie.execution.kinds.loop.projection_file import prompts_of
from coterie.history.engines.loop.unmerged import describe_unmerged
from coterie.history.journal import records as r
from coterie.history.journal.base import Reader
from coterie.history.views.projected_lines import as_line, wave_id
from coterie.history.views.projection import fold
from coterie.history.views.timeline import sentence
from coterie.history.views.words import duration


class Branch(Struct, frozen=True, kw_only=True):
    """An ended branch of a wave.

    Attributes:
        run: Its last child run; empty if none was started.
        outcome: `completed`, or the kind of its failure.
        text: Its output, or the reason of its failure.
    """

    objective: str
    run: str = ""
    outcome: str = ""
    seconds: float = 0.0
    text: str = ""


class Joined(Struct, frozen=True, kw_only=True):
    """A joined wave. *event* opened it, *then* routes the loop afterwards; *unmerged* describes unmerged work."""

    event: str
    then: str
    seconds: float
    branches: tuple[Branch, ...]
    unmerged: str = ""


class WaveFiles:
    """Writes the wave files of the run *run* below *home*, as its records come. *files* has the prompts.

    Args:
        top: The folder where the run was started; from there on no link is followed.
    """

    def __init__(self, journals: Reader, run: str, top: Path, home: Path, files: KeptPrompts) -> None:
        self._journals, self._run, self._top, self._home, self._prompts = journals, run, top, home, files
        self._caught_up = False
        self._open: OpenWave | None = None
        self._last: OpenWave | None = None
        """The last joined wave."""
        self._joined: tuple[Joined, int] | None = None
        """The last joined wave and its number."""

    def observe(self, run: str, record: r.Record) -> None:
        """Handle a durable record of the run; records of child runs are ignored."""
        if run != self._run:
            return
        with suppress(OSError, CoterieError, ValueError):  # no decision depends on these files
            if not self._caught_up and record.seq > 1:
                for earlier in self._journals.read(run):
                    if earlier.seq < record.seq:
                        self._write(earlier)
            self._caught_up = True
            self._write(record)

    def _write(self, record: r.Record) -> None:
        if isinstance(record, r.WaveStarted):
            self._open = OpenWave(record)
            for k, objective in enumerate(record.objectives, 1):
                self._put(self._folder(record.wave) / f"branch-{k}" / "objective.md", objective + "\n")
        elif isinstance(record, r.WaveJoined) and self._open is not None:
            joined = self._open.joined(self._run, record)
            self._last, self._open = self._open, None
            self._joined = joined, record.wave
            last = self._folder(record.wave) / "join.md"
            if self._caught_up or not last.exists():  # an earlier owner wrote them all
                for k, branch in enumerate(joined.branches, 1):
                    self._write_branch(self._folder(record.wave) / f"branch-{k}", branch)
            self._put(last, as_text(joined, record.wave))
        elif isinstance(record, r.TreesJoined) and self._joined is not None:
            joined, wave = self._joined
            text = as_text(replace(joined, unmerged=describe_unmerged(record)), wave)
            self._put(self._folder(wave) / "join.md", text)
        elif isinstance(record, r.RunReopened) and self._last is not None and self._last.is_about(record.asked):
            self._open = self._last
        elif self._open is not None:
            self._open.apply(record)

    def _write_branch(self, folder: Path, branch: Branch) -> None:
        records = list(self._journals.read(branch.run)) if branch.run else []
        lines = fold(records, prompts_of(self._prompts, branch.run))
        self._put(
            folder / "result.md", f"{branch.outcome} ({duration(branch.seconds)})\n\n{branch.text}".rstrip() + "\n"
        )
        self._put(folder / "log.txt", "".join(f"{sentence(record)}\n" for record in records))
        self._put(folder / "journal.jsonl", b"".join(map(as_line, lines)).decode())

    def _put(self, path: Path, text: str) -> None:
        files.write_below(*files.names_below(self._top, path), text.encode("utf-8", "replace"))

    def _folder(self, wave: int) -> Path:
        return self._home / wave_id(self._run, wave)


class OpenWave:
    """The branches of the wave that *opened* began, as the fold of its records."""

    def __init__(self, opened: r.WaveStarted) -> None:
        self._opened = opened
        self._began: dict[str, float] = {}
        self._last: dict[str, r.TurnStarted] = {}
        self._ends: dict[str, r.TurnFinished | r.TurnFailed | r.TurnCancelled] = {}

    def is_about(self, turns: Collection[str]) -> bool:
        """Whether one of *turns* is a branch of it."""
        return not set(turns).isdisjoint(self._opened.turns)

    def apply(self, record: r.Record) -> None:
        """Apply the next record of the run."""
        match record:
            case r.TurnStarted():
                self._began.setdefault(record.turn, record.at)
                self._last[record.turn] = record
            case r.TurnFinished() | r.TurnFailed() | r.TurnCancelled():
                self._ends[record.turn] = record

    def joined(self, run: str, join: r.WaveJoined) -> Joined:
        """The wave of *run* after *join*."""
        opened, outcomes = self._opened, dict(join.outcomes)
        branches = tuple(
            Branch(
                objective=objective,
                run=child_run_id(run, turn, self._last[turn].attempt) if turn in self._last else "",
                outcome=outcomes.get(turn, ""),
                seconds=self._seconds(turn),
                text=_text(self._ends.get(turn)),
            )
            for turn, objective in zip(opened.turns, opened.objectives, strict=True)
        )
        return Joined(event=opened.event, then=join.event, seconds=join.at - opened.at, branches=branches)

    def _seconds(self, turn: str) -> float:
        return self._ends[turn].at - self._began[turn] if turn in self._began and turn in self._ends else 0.0


def as_text(joined: Joined, wave: int) -> str:
    """The content of `join.md`: objectives, outcomes, times and outputs."""
    lines = [f"# Wave {wave}: {joined.event}", ""]
    lines += [f"The wave took {duration(joined.seconds)}; the loop continues after `{joined.then}`.", ""]
    for k, branch in enumerate(joined.branches, 1):
        lines += [f"## Branch {k}: {branch.objective}", "", f"{branch.outcome}, {duration(branch.seconds)}", ""]
        lines += [branch.text.strip() or "(no output)", ""]
    if joined.unmerged:
        lines += ["## Unmerged work", "", joined.unmerged, ""]
    return "\n".join(lines)


def _text(end: r.TurnFinished | r.TurnFailed | r.TurnCancelled | None) -> str:
    match end:
        case r.TurnFinished():
            return end.text
        case r.TurnFailed() | r.TurnCancelled():
            return end.reason
        case None:
            return ""
