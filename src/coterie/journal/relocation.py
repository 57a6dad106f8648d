"""The directory of a run's project now: it moves with the state directory that lies in it.

A run records its project's directory and where in it its state directory lies. A copy of the project has both, so the
copy's runs work in the copy.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from coterie.journal.records import Record, RunOwned, RunStarted
from coterie.planning.plan import Plan, to_json


class Relocation(Struct, frozen=True):
    """Replaces the recorded directories of a project by the present one.

    Attributes:
        project: The project's directory; empty if its state directory is not in it, so that nothing is replaced.
        recorded: Those that were recorded, in the order of the records.
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
        """*plan* with its paths as they are now."""
        if all(old == self.project for old in self.recorded):
            return plan
        return msgspec.convert(self._value(msgspec.json.decode(to_json(plan))), Plan)

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.path(value)
        if isinstance(value, list):
            return [self._value(one) for one in value]
        if isinstance(value, dict):
            return {self.path(key): self._value(one) for key, one in value.items()}
        return value


def place_in(project: Path, state_dir: Path) -> tuple[str, str]:
    """What a run records: *project*, and *state_dir* relative to it; nothing if that is not in it."""
    project, state_dir = project.resolve(), state_dir.resolve()
    return (str(project), str(state_dir.relative_to(project))) if state_dir.is_relative_to(project) else ("", "")


def relocation(records: Iterable[Record], state_dir: Path) -> Relocation:
    """Where the project of the root run with *records* is, now that they are in *state_dir*."""
    started, recorded = None, list[str]()
    for record in records:
        started = record if started is None and isinstance(record, RunStarted) else started
        if isinstance(record, RunStarted | RunOwned) and record.project:
            recorded.append(record.project)
    here, home = state_dir.resolve(), Path(started.home if started is not None else "")
    if started is None or not started.home or here.parts[len(here.parts) - len(home.parts) :] != home.parts:
        return Relocation()
    return Relocation(str(Path(*here.parts[: len(here.parts) - len(home.parts)])), tuple(recorded))
