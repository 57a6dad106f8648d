"""`human_in_loop`: a human approves actions of an agent before they are executed."""

import asyncio
import json
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, Field

from coterie.errors import CallFailed
from coterie.patterns.reference.calls import Call, current_call
from coterie.patterns.reference.mixins.base import BaseMixin, Vetoed

_YES = frozenset({"y", "yes", "ok", "okay", "approve", "approved", "allow", "allowed", "true"})


class HumanInLoopConfig(BaseModel):
    """Settings of `human_in_loop`.

    Attributes:
        require_approval_for: The tools that need approval; empty: all.
        approval_timeout_seconds: The time limit for an answer.
        allow_modification: The human may answer with other arguments, as a JSON object.
        escalation_on_timeout: Without an answer: `abort` fails the call, `continue` uses the tool, `default` does not.
    """

    model_config = {"extra": "forbid"}

    require_approval_for: list[str] = Field(default_factory=list)
    approval_timeout_seconds: int = Field(default=3600, gt=0)
    allow_modification: bool = True
    escalation_on_timeout: Literal["abort", "continue", "default"] = "abort"


class HumanInLoopMixin(BaseMixin):
    """Asks a human before a tool is used. The question waits in the run: `coterie control respond` answers it."""

    name: ClassVar[str] = "human_in_loop"
    description: ClassVar[str] = "Ask a human before tools are used"
    config_class: ClassVar[type[BaseModel]] = HumanInLoopConfig
    pure: ClassVar[bool] = True
    dependencies: ClassVar[list[str]] = ["tool_use"]

    async def on_tool_call(self, tool: str, args: dict[str, Any]) -> dict[str, Any] | None:
        """Ask, and wait."""
        needed = self.config.require_approval_for
        if needed and tool not in needed:
            return args
        try:
            async with asyncio.timeout(self.config.approval_timeout_seconds) as limit:
                return await allowed_by_human(current_call(), tool, args, modify=self.config.allow_modification)
        except TimeoutError:
            if not limit.expired():
                raise
        waited = f"no answer within {self.config.approval_timeout_seconds} s"
        match self.config.escalation_on_timeout:
            case "continue":
                return args
            case "default":
                raise Vetoed(waited)
            case _:
                raise CallFailed(f"{waited} whether {tool!r} may be used", "timeout")


async def allowed_by_human(call: Call, tool: str, args: dict[str, Any], *, modify: bool) -> dict[str, Any]:
    """The arguments with which a human allows *tool*.

    Raises:
        Vetoed: If they refuse; quotes their answer.
    """
    how = "Answer `yes`, or why not" + (", or other arguments as a JSON object." if modify else ".")
    shown = json.dumps(args, ensure_ascii=False, sort_keys=True)
    said = (await call.ask_human(f"{call.slot} wants to use the tool {tool} with {shown}.\n\n{how}")).strip()
    if said.lower().rstrip(".!") in _YES:
        return args
    if modify and said.startswith("{"):
        try:
            changed = json.loads(said)
        except json.JSONDecodeError as error:
            raise Vetoed(f"a human answered with invalid JSON arguments ({error})") from None
        return dict(changed)
    raise Vetoed(f"a human said: {said or 'no'}")
