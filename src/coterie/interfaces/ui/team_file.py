"""A team's file without a run, read again when it is saved: its picture, and the findings by node."""

import asyncio
import hashlib
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from coterie.base.diagnostics import Diagnostic, Severity, error
from coterie.base.file_fingerprint import FileFingerprint
from coterie.errors import CoterieError
from coterie.history.views.team import kind_of, of_graph, teams
from coterie.interfaces.ui.feeds import Feed, FeedEvent
from coterie.proofs import Report
from coterie.proofs import check as prove
from coterie.team import formats, planning
from coterie.team.planning import ONLY_FOR_A_RUN
from coterie.team.planning.plan import Plan
from coterie.team.planning.system import SystemPlan
from coterie.team.topology.drawing import draw
from coterie.team.topology.model import Topology

EVERY = 0.4
"""Seconds between two checks of the files."""
_NAME = re.compile(r"[A-Za-z_][\w-]*")


class TeamFile:
    """The team of *file*, read again when one of its files changes."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._read_from = FileFingerprint()
        self._drawn: tuple[dict[str, Any], str, str, float] | None = None
        self._proofs: dict[str, Report] = {}
        self._state: dict[str, Any] = {}

    def read(self) -> dict[str, Any]:
        """The data for the page: `file, name, kind, valid, teams, findings, proof, stale_since`.

        `teams`: pictures by place, see `coterie.history.views.team`. While the file cannot be drawn, these are the last
        ones, and `stale_since` is the time from which they are out of date. `findings`: diagnostics, with `source`
        (`validate` or `check`) and `nodes`.
        """
        if self._state and self._read_from.is_current():
            return self._state
        with self._read_from.recorded():
            self._state = self._examine()
        self._read_from.confirm()
        return self._state

    def _examine(self) -> dict[str, Any]:
        source = formats.read(self.file)
        plan, found = planning.examine(source)
        if plan is None:
            found = tuple(replace(one, severity=Severity.ERROR) if one.code in ONLY_FOR_A_RUN else one for one in found)
        is_valid = not any(one.is_error for one in found)
        findings = [(one, "validate") for one in found]
        proof = self._prove(plan, source.topology) if plan is not None and is_valid else None
        if proof is not None:
            findings += [(one.diagnostic(str(self.file)), "check") for one in proof.findings]
        since = self._draw(plan, source.topology)
        pictures, name, kind = self._drawn[:3] if self._drawn is not None else ({}, self.file.stem, "")
        places = _Places(source.text, source.topology, str(self.file))
        return {
            "file": str(self.file),
            "name": name,
            "kind": kind,
            "valid": is_valid and not (proof is not None and proof.has_errors),
            "teams": pictures,
            "findings": [{**one.to_dict(), "source": what, "nodes": list(places.nodes(one))} for one, what in findings],
            "proof": _told(proof) if proof is not None else None,
            "stale_since": since,
        }

    def _draw(self, plan: Plan | None, topology: Topology | None) -> float | None:
        """Draw the team if possible; otherwise return the time from which the last picture is out of date."""
        try:
            if plan is not None:
                found = {place: msgspec.to_builtins(one, enc_hook=str) for place, one in teams(plan)}
                self._drawn = (found, plan.name, kind_of(plan), time.time())
                return None
            if self._drawn is None and topology is not None and topology.nodes:
                picture = of_graph(draw(topology), topology.name)
                self._drawn = ({"": msgspec.to_builtins(picture, enc_hook=str)}, topology.name, "", time.time())
                return None
        except (LookupError, ValueError):  # the unfinished file is not a graph
            pass
        return self._drawn[3] if self._drawn is not None else None

    def _prove(self, plan: Plan, topology: Topology | None) -> Report | None:
        """The proof of *plan*, computed once; None for a supervised system, which has no end to prove."""
        if isinstance(plan.coordination, SystemPlan):
            return None
        key = plan.content_hash()
        if key not in self._proofs:
            self._proofs = {key: prove(plan, topology=topology)}
        return self._proofs[key]


class TeamFeed(Feed):
    """The state of a team's file, sent whole at every change; the id of an event is its hash."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file, self._last = TeamFile(file), ""
        self._lock = asyncio.Lock()

    async def state(self, last: str) -> tuple[FeedEvent | None, int]:
        """The current state of the team's file, unless the page has it."""
        event = await self._read()
        if self._task is None:
            self._last = event.id
            self._fill()
        return (None if event.id == last else event), self.end

    async def _read(self) -> FeedEvent:
        async with self._lock:
            try:
                found = await asyncio.to_thread(self._file.read)
            except (OSError, CoterieError) as problem:
                found = {"file": str(self._file.file), "findings": [], "teams": {}, "valid": False} | {
                    "findings": [{**error("unreadable", str(problem)).to_dict(), "source": "validate", "nodes": []}]
                }
        data = msgspec.json.encode(found, enc_hook=str)
        return FeedEvent("state", hashlib.sha256(data).hexdigest()[:16], data)

    def _every(self) -> float:
        return EVERY

    async def _look(self) -> None:
        event = await self._read()
        if event.id != self._last:
            self._last = event.id
            self.put(event)
            self.wake()


class _Places:
    """Finds the nodes that a finding concerns, by its position in the text, else by the names in its message."""

    def __init__(self, text: str, topology: Topology | None, file: str) -> None:
        self._lines, self._file = text.split("\n"), file
        nodes = topology.nodes if topology is not None else ()
        groups = topology.flow.groups if topology is not None and topology.flow is not None else ()
        self._names = {node.name for node in nodes}.union(*({one.source, *one.targets} for one in groups))
        starts = [(node.span.line, node.name) for node in nodes if node.span is not None]
        self._starts = sorted(starts, reverse=True)

    def nodes(self, found: Diagnostic) -> Iterator[str]:
        """The names of the nodes that *found* concerns; none: the whole team."""
        text = ""
        if found.span is not None and found.file in ("", self._file) and found.span.line <= len(self._lines):
            line = self._lines[found.span.line - 1]
            text = line[found.span.column - 1 : found.span.column - 1 + found.span.length]
        for words in (text, found.message):
            if names := [one for one in dict.fromkeys(_NAME.findall(words)) if one in self._names]:
                yield from names
                return
        if text and (name := self._block_of(found.span.line if found.span is not None else 0)):
            yield name

    def _block_of(self, line: int) -> str:
        """The node whose declaration contains *line*; empty if there is none, as in a flow."""
        for start, name in self._starts:
            if start <= line:
                depth = sum(one.count("{") - one.count("}") for one in self._lines[start - 1 : line - 1])
                return name if depth > 0 else ""
        return ""


def _told(proof: Report) -> Mapping[str, Any]:
    """The numbers of a proof."""
    return {
        "method": proof.method,
        "ends": proof.ends,
        "worst": proof.worst.turns if proof.worst is not None else None,
        "best": proof.best.turns if proof.best is not None else None,
        "agents": proof.worst.agents if proof.worst is not None else {},
    }
