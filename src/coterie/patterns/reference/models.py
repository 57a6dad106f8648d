"""Call the provider of a model, for topologies without a `_call_llm` (extra `models`)."""

from typing import Any

from coterie.agents.backends.base import Answer, Request, history_text
from coterie.errors import CallFailed
from coterie.patterns.reference.calls import current_call
from coterie.team.planning.plan import AgentPlan


async def ask_model(request: dict[str, Any]) -> dict[str, Any]:
    """The response of the model that *request* names: `content` and `usage`.

    Raises:
        CallFailed: If the call fails, or *request* needs a chat API of the topology's own.
    """
    if request.get("tools"):
        raise CallFailed(
            "tools of a topology need your own _call_llm, which offers `tools` to the model and returns what it "
            "wants as `tool_calls`",
            "refused",
        )
    call = current_call()
    said = [(str(one.get("role", "user")), _text(one.get("content"))) for one in request["messages"]]
    if not said or said[-1][0] != "user":
        raise CallFailed("the last message of a request must be the user's", "refused")
    *before, (_, prompt) = said
    history = tuple(before)
    options = {name: request[name] for name in ("max_tokens", "temperature") if request.get(name) is not None}
    agent = AgentPlan(name=call.slot, backend="model", model=str(request["model"]), options=options)
    asked = Request(
        run=call.run,
        turn=call.turn,
        attempt=call.attempt,
        agent=agent,
        prompt="\n\n".join(part for part in (history_text(history), prompt) if part),
        history=history,
        interrupted=call.interrupted,
    )
    backend = call.models()
    assert backend is not None
    session = await backend.start(asked, lambda event: None)
    result = await session.result()
    used = result.usage
    usage = {"input_tokens": used.input_tokens, "output_tokens": used.output_tokens, "cost": used.cost}
    if not isinstance(result, Answer):
        raise CallFailed(result.reason, result.kind, result.wait, usage)
    return {"content": result.text, "usage": usage}


def _text(content: Any) -> str:
    if not isinstance(content, str):
        raise CallFailed("only texts can be sent here: give your topology its own _call_llm", "refused")
    return content
