"""The present directory of a run's project, which may have been moved or copied with its state directory.

A run records the directory of its project and the path of the state directory in it. A copy of the project has both, so
runs of the copy work in the copy.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from coterie.history.journal.records import Record, RunOwned, RunStarted
from coterie.team.planning.plan import Plan, to_json

_TEXTS = frozenset({"description", "prompt", "role", "objective", "harness"})
"""The fields of a plan that agents read: a path that such a text begins with stays as it was written."""


class Relocation(Struct, frozen=True):
    """Replaces the recorded directories of a project by the present one.

    Attributes:
        project: The project's directory; empty if its state directory is not in it, so that nothing is replaced.
        recorded: The recorded directories, in the order of the records.
    """

    project: str = ""
    recorded: tuple[str, ...] = ()

    @property
    def before(self) -> str:
        """The last recorded directory; empty if it is the present one."""
        return self.recorded[-1] if self.recorded and self.recorded[-1] != self.project else ""

    def path(self, text: str) -> str:
        """The present form of *text*, if it is a path within a recorded directory, else *text*."""
        for old in sorted({*self.recorded, self.project}, key=len, reverse=True):
            if old and (text == old or text.startswith(f"{old}{os.sep}")):
                return self.project + text[len(old) :]
        return text

    def plan(self, plan: Plan) -> Plan:
        """Replace the paths in *plan* with the present ones."""
        if all(old == self.project for old in self.recorded):
            return plan
        return msgspec.convert(self._value(msgspec.json.decode(to_json(plan))), Plan)

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.path(value)
        if isinstance(value, list):
            return [self._value(one) for one in value]
        if isinstance(value, dict):
            return {
                self.path(key): one if key in _TEXTS and isinstance(one, str) else self._value(one)
                for key, one in value.items()
            }
        return value


def place_in(project: Path, state_dir: Path) -> tuple[str, str]:
    """The values that a run records: *project*, and *state_dir* relative to it; both empty if it is not inside."""
    project, state_dir = project.resolve(), state_dir.resolve()
    return (str(project), str(state_dir.relative_to(project))) if state_dir.is_relative_to(project) else ("", "")


def relocation(records: Iterable[Record], state_dir: Path) -> Relocation:
    """The relocation of the root run with *records*, which are now in *state_dir*."""
    started, recorded = None, list[str]()
    for record in records:
        started = record if started is None and isinstance(record, RunStarted) else started
        if isinstance(record, RunStarted | RunOwned) and record.project:
            recorded.append(record.project)
    here, home = state_dir.resolve(), Path(started.home if started is not None else "")
    if started is None or not started.home or here.parts[len(here.parts) - len(home.parts) :] != home.parts:
        return Relocation()
    return Relocation(str(Path(*here.parts[: len(here.parts) - len(home.parts)])), tuple(recorded))
