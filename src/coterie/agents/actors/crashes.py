"""Descriptions of an agent's crash."""

import traceback

from coterie import errors
from coterie.agents.actors.process import AgentProcess, not_async

TRACE = 4000
"""How many characters of a traceback are kept."""


def error_line(error: BaseException | None) -> str:
    """As `coterie.errors.error_line`, with a hint if a hook is not `async def` or takes no message."""
    line = errors.error_line(error)
    if isinstance(error, TypeError) and ("'await' expression" in line or "positional argument" in line):
        frames = (frame.f_locals.get("agent") for frame, _ in traceback.walk_tb(error.__traceback__))
        hints = (not_async(agent) for agent in frames if isinstance(agent, AgentProcess))
        if hint := next(filter(None, hints), ""):
            error.add_note(hint)
            line = f"{line}; {hint}"
    return line


def trace(error: BaseException, caller: str) -> str:
    """The traceback of *error*, without the first frames in the file *caller*, which called the agent."""
    own = error.__traceback__
    while own is not None and own.tb_frame.f_code.co_filename == caller:
        own = own.tb_next
    return "".join(traceback.format_exception(type(error), error, own or error.__traceback__))[-TRACE:]
