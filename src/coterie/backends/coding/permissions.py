"""Decide whether a coding agent may use a tool: the command policy, then trust, then a person."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from msgspec import Struct

from coterie.backends.base import OnEvent, Permission
from coterie.backends.coding.command_policy import UNREADABLE, refusal
from coterie.files import is_file, is_folder, read
from coterie.planning.plan import AgentPlan

MOST = 4096
"""Bytes of a file of git that are read."""
Hold = Callable[[], AbstractContextManager[None]]


class ApprovalRequest(Struct, frozen=True, kw_only=True):
    """What an agent asks permission for.

    Attributes:
        id: Unique in the attempt.
        tool: The tool's name.
        detail: The tool's input, in a line.
        command: The shell command that it is to run, if the protocol shows one.
    """

    id: str
    tool: str
    detail: str = ""
    command: str = ""


class ToolPermissions:
    """Answers the requests of one attempt, and says each answer as an event.

    The policy refuses first. Then a person decides with `attention = "ask"`, and on a command that the policy cannot
    read; else `trust_all_tools` allows everything or nothing.

    Args:
        hold: Held while a person decides: the time-out of the attempt does not run then.
        cwd: Where the agent works.
    """

    def __init__(self, agent: AgentPlan, on_event: OnEvent, hold: Hold, cwd: Path | None = None) -> None:
        self._branch = partial(branch_of, cwd)
        self._asks = agent.options.get("attention") == "ask"
        self._trusts = bool(agent.options.get("trust_all_tools", True))
        self._on_event, self._hold = on_event, hold
        self._open: dict[str, asyncio.Future[bool]] = {}

    async def allows(self, request: ApprovalRequest) -> bool:
        """Whether *request* is granted; waits for a person if one decides."""
        if self.forbids(request):
            return False
        asks = self._asks or self.needs_person(request)
        allowed = await self._ask(request) if asks else self._trusts
        self._decided(request, allowed, "answered" if asks else "trust_all_tools")
        return allowed

    def needs_person(self, request: ApprovalRequest) -> bool:
        """Whether the policy cannot read the command of *request*, which trust would allow."""
        found = refusal(request.command, self._branch)
        return self._trusts and found is not None and found.rule == UNREADABLE

    def forbids(self, request: ApprovalRequest) -> str:
        """Why the policy refuses *request*, which is an event then; empty if it does not."""
        forbidden = refusal(request.command, self._branch)
        if forbidden is None or forbidden.rule == UNREADABLE:
            return ""
        why = f"{forbidden.rule}: {forbidden.reason}"
        self._decided(request, False, why)
        return why

    def _decided(self, request: ApprovalRequest, allowed: bool, why: str) -> None:
        decision = "allowed" if allowed else "denied"
        self._on_event(Permission(id=request.id, tool=request.tool, detail=request.detail, decision=decision, why=why))

    async def _ask(self, request: ApprovalRequest) -> bool:
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._open[request.id] = answer
        self._on_event(Permission(id=request.id, tool=request.tool, detail=request.detail))
        try:
            with self._hold():
                return await answer
        finally:
            del self._open[request.id]

    def answer(self, question: str, allowed: bool) -> bool:
        """Answer the open request with the id *question*; False if there is none."""
        waiting = self._open.get(question)
        if waiting is None or waiting.done():
            return False
        waiting.set_result(allowed)
        return True


def branch_of(folder: Path | None) -> str:
    """The git branch that is checked out in *folder*, or in one above it; empty if there is none."""
    for place in (folder, *folder.parents) if folder is not None else ():
        git = place / ".git"
        try:
            if is_file(git):  # of a work tree
                git = place / read(git, MOST).decode().removeprefix("gitdir:").strip()
            if is_folder(git):
                ref = read(git / "HEAD", MOST).decode().strip()
                return ref.removeprefix("ref: refs/heads/") if ref.startswith("ref: ") else ""
        except (OSError, ValueError):
            return ""
    return ""
