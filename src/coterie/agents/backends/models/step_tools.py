"""Call the tools of a conversation that is kept: a call that has returned once returns the same again.

Imports pydantic-ai: load it late.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from pydantic_ai import ModelRetry, RunContext, ToolFailed, ToolReturn
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelRequest, ToolReturnPart, UserPromptPart
from pydantic_ai.toolsets import WrapperToolset
from pydantic_ai.toolsets.abstract import ToolsetTool

from coterie.agents.backends.models.functions import Unusable
from coterie.agents.backends.models.results import cut, given, unusable
from coterie.agents.backends.models.steps import CallLine, ResultLine, Steps, digest, unknown
from coterie.agents.backends.models.workfiles import RESULT
from coterie.agents.backends.secrets import Secrets


@dataclass
class RecordedTools(WrapperToolset[None]):
    """Tools whose calls are kept in *steps*.

    A call that was under way when its attempt ended is made again, unless the name of its tool matches one in *once*:
    then the model reads that its effect is unknown.
    """

    steps: Steps
    secrets: Secrets
    say: Callable[[str], object]
    once: Collection[str] = ()
    server: str = ""

    async def get_tools(self, ctx: RunContext[None]) -> dict[str, ToolsetTool[None]]:
        """The tools that a model can be offered; the others are left out and logged.

        Raises:
            Unusable: If a server does not name its tools.
        """
        try:
            found = await super().get_tools(ctx)
        except Exception as error:  # a server is a foreign program: it may answer anything
            reason = self.secrets.hide(f"{type(error).__name__}: {error}")
            raise Unusable(f"the MCP server {self.server!r} gives no list of tools: {cut(reason)}") from error
        if not self.server:
            return found  # the library has described the functions itself
        offered = {}
        for name, tool in found.items():
            if why := unusable(tool.tool_def, getattr(ctx.model, "profile", {})):
                self.say(self.secrets.hide(f"the tool {name[:RESULT]!r} is left out: {why}\n"))
            else:
                offered[name] = tool
        return offered

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[None], tool: ToolsetTool[None]
    ) -> Any:
        """The kept result of this call, or that of calling the tool now."""
        id = ctx.tool_call_id or ""
        if (kept := self.steps.returned.get(id)) is not None:
            return _result(kept)
        if id in self.steps.called:
            self._keep(id, name, tool_args, "failed", unknown(name))
            raise ToolFailed(unknown(name))
        if any(fnmatchcase(name, one) for one in self.once):
            self.steps.append(CallLine(id=id))
            await self.steps.sync()
        try:
            result = given(await super().call_tool(name, tool_args, ctx, tool), self.secrets)
        except ModelRetry as error:
            failed: ModelRetry | ToolFailed = ModelRetry(cut(self.secrets.hide(error.message)))
        except ToolFailed as error:
            failed = ToolFailed(cut(self.secrets.hide(error.message)))
        except Exception as error:  # what a foreign server gives may be no result at all: the model reads that
            failed = ToolFailed(cut(self.secrets.hide(f"{type(error).__name__}: {error}")))
        else:
            self._keep(id, name, tool_args, "result", _dumped(name, id, result))
            return result
        self._keep(id, name, tool_args, "retry" if isinstance(failed, ModelRetry) else "failed", failed.message)
        raise failed

    def _keep(self, id: str, name: str, arguments: dict[str, Any], outcome: str, value: Any) -> None:
        returned = ResultLine(id=id, name=name, arguments=digest(arguments), outcome=outcome, value=value)
        self.steps.returned[id] = returned
        self.steps.append(returned)


def parts_of(kept: ResultLine) -> list[Any]:
    """The parts of a request that give the model a kept result."""
    if kept.outcome == "result":
        return list(ModelMessagesTypeAdapter.validate_python([kept.value])[0].parts)
    return [ToolReturnPart(kept.name, kept.value, kept.id, outcome="failed")]


def _dumped(name: str, id: str, result: Any) -> Any:
    """*result* as plain data: the parts of a request that give it to the model."""
    whole = result if isinstance(result, ToolReturn) else ToolReturn(return_value=result)
    parts: list[Any] = [ToolReturnPart(name, whole.return_value, id)]
    if whole.content:
        parts.append(UserPromptPart(whole.content))
    return ModelMessagesTypeAdapter.dump_python([ModelRequest(parts=parts)], mode="json")[0]


def _result(kept: ResultLine) -> Any:
    """Return or raise what the tool did."""
    match kept.outcome:
        case "retry":
            raise ModelRetry(kept.value)
        case "failed":
            raise ToolFailed(kept.value)
    given, *more = parts_of(kept)
    return ToolReturn(return_value=given.content, content=more[0].content) if more else given.content
