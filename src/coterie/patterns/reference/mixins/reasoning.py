"""`reasoning`: an agent reasons in steps, which are separated from its answer."""

import re
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, Field

from coterie.patterns.reference.mixins.base import BaseMixin, ReplyRefused
from coterie.patterns.reference.mixins.requests import with_system

_STYLES = {
    "step_by_step": "Think step by step. Write each step as a numbered line.",
    "tree_of_thought": "Consider several ways to go, and what speaks for and against each. Write each as a numbered "
    "line, then follow the best one.",
    "socratic": "Ask yourself the questions that matter, and answer them. Write each with its answer as a numbered "
    "line.",
}
_STEP = re.compile(r"^\s*(?:\d+[.)]|[-*•]|step\s+\d+\s*[:.])\s+(.+)$", re.IGNORECASE)
_CONCLUSION = re.compile(
    r"^\s*\**\s*(?:final answer|conclusion|answer)\s*\**\s*:\s*\**\s*", re.IGNORECASE | re.MULTILINE
)


class ReasoningConfig(BaseModel):
    """Settings of `reasoning`.

    Attributes:
        show_reasoning: The answer keeps the steps; otherwise it is only the conclusion, if there is one.
        max_reasoning_steps: The most steps that are requested and kept.
        require_conclusion: Reject an answer without a conclusion.
    """

    model_config = {"extra": "forbid"}

    reasoning_style: Literal["step_by_step", "tree_of_thought", "socratic"] = "step_by_step"
    show_reasoning: bool = True
    max_reasoning_steps: int = Field(default=10, ge=1)
    require_conclusion: bool = True


class ReasoningMixin(BaseMixin):
    """Stores an agent's reasoning under `_reasoning`: `{"style": …, "steps": […], "conclusion": …}`."""

    name: ClassVar[str] = "reasoning"
    description: ClassVar[str] = "Think aloud"
    config_class: ClassVar[type[BaseModel]] = ReasoningConfig
    pure: ClassVar[bool] = True

    async def on_invoke(self, request: dict[str, Any]) -> dict[str, Any]:
        """Add the instructions to the request."""
        how = f"{_STYLES[self.config.reasoning_style]} Use at most {self.config.max_reasoning_steps} steps."
        if self.config.require_conclusion or not self.config.show_reasoning:
            how += " End with a line that begins with `Conclusion:`."
        return with_system(request, how)

    async def on_response(self, response: dict[str, Any]) -> dict[str, Any]:
        """Separate steps and conclusion."""
        content = response.get("content")
        if not isinstance(content, str):
            return response
        marks = list(_CONCLUSION.finditer(content))
        conclusion = content[marks[-1].end() :].strip() if marks else ""
        if self.config.require_conclusion and not conclusion:
            raise ReplyRefused("the answer has no line that begins with `Conclusion:`")
        before = content[: marks[-1].start()] if marks else content
        steps = [found[1].strip() for line in before.splitlines() if (found := _STEP.match(line))]
        made = {
            "style": self.config.reasoning_style,
            "steps": steps[: self.config.max_reasoning_steps],
            "conclusion": conclusion,
        }
        shown = content if self.config.show_reasoning or not conclusion else conclusion
        return {**response, "content": shown, "_reasoning": made}
