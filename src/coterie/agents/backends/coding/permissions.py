"""Decide whether a coding agent may use a tool: by the command policy, rules, then trust or a person."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from coterie.agents.backends import wrapper
from coterie.agents.backends.base import OnEvent, Permission
from coterie.agents.backends.coding import allowed
from coterie.agents.backends.coding.command_policy import UNREADABLE, refusal
from coterie.base.files import is_file, is_folder, read
from coterie.team.planning.plan import AgentPlan

MOST = 4096
"""How many bytes of a file of git are read."""
Hold = Callable[[], AbstractContextManager[None]]


class ApprovalRequest(Struct, frozen=True, kw_only=True):
    """An agent's request for permission.

    Attributes:
        id: Unique in the attempt.
        tool: The tool's name.
        detail: The tool's input, in one line.
        command: The shell command that it runs, if the protocol shows one.
        is_certain: Whether *tool* and *command* are protocol fields, and not only a title, which may say anything.
    """

    id: str
    tool: str
    detail: str = ""
    command: str = ""
    is_certain: bool = True


class ApprovalDecision(NamedTuple):
    """Whether a request is granted; *message* is a text for the agent from the person who denied it."""

    is_allowed: bool
    message: str = ""


class ToolPermissions:
    """Answers the requests of one attempt, and emits each answer as an event.

    The policy refuses first. Coterie's own commands, and uses that match a rule in `allow`, are allowed. Then a person
    decides if `attention = "ask"`, or if the policy cannot read the command; otherwise `trust_all_tools` allows
    everything or nothing.

    Args:
        folder: The folder of the attempt, with the command that calls Coterie.
        hold: A context in which the time-out of the attempt is suspended, entered while a person decides.
        cwd: The working directory of the agent.
    """

    def __init__(
        self, agent: AgentPlan, on_event: OnEvent, hold: Hold, cwd: Path | None = None, folder: Path | None = None
    ) -> None:
        self._branch = partial(branch_of, cwd)
        folders = () if folder is None else (folder, wrapper.link_of(folder))
        self._names = {*allowed.NAMES, *(str(one / name) for one in folders for name in allowed.NAMES)}
        self._rules: tuple[str, ...] = tuple(agent.options.get("allow", ()))
        self._asks = agent.options.get("attention") == "ask"
        self._trusts = bool(agent.options.get("trust_all_tools", True))
        self._on_event, self._hold = on_event, hold
        self._open: dict[str, asyncio.Future[ApprovalDecision]] = {}

    async def decide(self, request: ApprovalRequest) -> ApprovalDecision:
        """Decide on *request*; wait for a person if one decides."""
        if self.forbids(request):
            return ApprovalDecision(False)
        if why := self._needs_nobody(request):
            self._decided(request, True, why)
            return ApprovalDecision(True)
        asks = self._asks or self.needs_person(request)
        decision = await self._ask(request) if asks else ApprovalDecision(self._trusts)
        self._decided(request, decision.is_allowed, "answered" if asks else "trust_all_tools")
        return decision

    def _needs_nobody(self, request: ApprovalRequest) -> str:
        """Why *request* is granted without a person; empty if it is not."""
        if not request.is_certain:
            return ""
        if allowed.is_own(request.command, self._names):
            return "a command of coterie"
        fits = not self._is_unreadable(request) and allowed.fits(self._rules, request.tool, request.command)
        return "a rule allows it" if fits else ""

    def _is_unreadable(self, request: ApprovalRequest) -> bool:
        found = refusal(request.command, self._branch)
        return found is not None and found.rule == UNREADABLE

    def needs_person(self, request: ApprovalRequest) -> bool:
        """Whether *request* would be allowed by trust, but has a command that the policy cannot read."""
        return self._trusts and self._is_unreadable(request)

    def forbids(self, request: ApprovalRequest) -> str:
        """Why the policy refuses *request*, which then emits an event; empty if it does not."""
        forbidden = refusal(request.command, self._branch)
        if forbidden is None or forbidden.rule == UNREADABLE:
            return ""
        why = f"{forbidden.rule}: {forbidden.reason}"
        self._decided(request, False, why)
        return why

    def _decided(self, request: ApprovalRequest, is_allowed: bool, why: str) -> None:
        decision = "allowed" if is_allowed else "denied"
        self._on_event(Permission(id=request.id, tool=request.tool, detail=request.detail, decision=decision, why=why))

    async def _ask(self, request: ApprovalRequest) -> ApprovalDecision:
        answer: asyncio.Future[ApprovalDecision] = asyncio.get_running_loop().create_future()
        self._open[request.id] = answer
        has_rule = request.is_certain and not self._is_unreadable(request)
        rule = allowed.rule_for(request.tool, request.command) if has_rule else ""
        self._on_event(Permission(id=request.id, tool=request.tool, detail=request.detail, rule=rule))
        try:
            with self._hold():
                return await answer
        finally:
            del self._open[request.id]

    def answer(self, question: str, decision: ApprovalDecision) -> bool:
        """Answer the open request with the id *question*; False if there is none."""
        waiting = self._open.get(question)
        if waiting is None or waiting.done():
            return False
        waiting.set_result(decision)
        return True


def branch_of(folder: Path | None) -> str:
    """The git branch that is checked out in *folder*, or in one above it; empty if there is none."""
    for place in (folder, *folder.parents) if folder is not None else ():
        git = place / ".git"
        try:
            if is_file(git):  # in a work tree
                git = place / read(git, MOST).decode().removeprefix("gitdir:").strip()
            if is_folder(git):
                ref = read(git / "HEAD", MOST).decode().strip()
                return ref.removeprefix("ref: refs/heads/") if ref.startswith("ref: ") else ""
        except (OSError, ValueError):
            return ""
    return ""
