"""Attempts to answer the calls of programs in this process, with the topology object of the run."""

import asyncio
from typing import Any

from coterie.agents.backends.attempt_timeout import ABANDONED, InlineAttempt
from coterie.agents.backends.base import FAILURES, Answer, Failure, Request, Result
from coterie.base.user_code import EndableCall, contained, is_cancelled
from coterie.errors import CallFailed, PatternRefused
from coterie.history.journal.records import Usage
from coterie.patterns.reference.invocation import split
from coterie.patterns.reference.mixins.base import ReplyRefused
from coterie.patterns.reference.program_run import ProgramRun

_KINDS = FAILURES - {"interrupted"}
"""The kinds of failure that a call may report; interruptions are reported only by this module."""


class CallAttempt(InlineAttempt):
    """One attempt to answer a call."""

    def __init__(self, program_run: ProgramRun, request: Request) -> None:
        super().__init__()
        self._program_run, self._request = program_run, request

    async def _run(self) -> Result:
        asked, program_run, loop = self._request, self._program_run, asyncio.get_running_loop()
        began = loop.time()
        call = await program_run.call(asked.turn, asked.attempt, asked.interrupted)

        def failed(kind: str, reason: str, wait: float = 0.0) -> Failure:
            return Failure(kind=kind, reason=reason, wait=wait, usage=_usage(call.used, loop.time() - began))

        try:
            with contained():
                response = await EndableCall(program_run.respond(call))
        except CallFailed as error:
            if error.kind not in _KINDS:
                reason = (
                    f"unknown kind of failure {error.kind!r}; known are {', '.join(sorted(_KINDS))}: {error.reason}"
                )
                return failed("crashed", reason)
            return failed(error.kind, str(error.reason), _number({"wait": error.wait}, float, "wait"))
        except ReplyRefused as refused:
            return failed("invalid_output", str(refused))
        except PatternRefused as refused:
            return failed("crashed", str(refused))
        except asyncio.CancelledError:
            if not self.abandoned or is_cancelled():
                raise
            return failed("timeout", ABANDONED)
        except TimeoutError as error:
            return failed("timeout", told(error))
        except Exception as error:  # whatever a user's code raises is why the call failed
            return failed("failed", told(error))
        text, outputs = split(response)
        return Answer(text=text, outputs=outputs, usage=_usage(response.get("usage"), loop.time() - began))


def told(error: BaseException) -> str:
    """The message of *error*, or its type if it has none."""
    return str(error) or type(error).__name__


def _usage(said: Any, seconds: float) -> Usage:
    """The usage that a response reports, under the names of providers, and its duration."""
    if not isinstance(said, dict):
        return Usage(seconds=seconds)
    return Usage(
        seconds=seconds,
        input_tokens=int(_number(said, int, "input_tokens", "prompt_tokens")),
        output_tokens=int(_number(said, int, "output_tokens", "completion_tokens")),
        cost=float(_number(said, float, "cost")),
    )


def _number(said: dict[str, Any], kind: type[int] | type[float], *names: str) -> float:
    """The first number of *kind* under *names*; 0 if it is negative, because usage never decreases."""
    kinds = (int, kind)
    found = (n for name in names if isinstance(n := said.get(name), kinds) and not isinstance(n, bool))
    first = next(found, 0)
    return first if 0 <= first < float("inf") else 0
