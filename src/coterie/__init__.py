"""Run teams of AI agents that survive being killed.

A team is declared in a file. Every run writes a journal, so a run that was interrupted anywhere can be resumed, and
finished work is never repeated.

    import asyncio, coterie

    topology = coterie.load("review.at")
    outcome = asyncio.run(coterie.run(topology, {"prompt": "Review this repository."}))

The names below are imported on first use, so that `import coterie` is fast.
"""

TYPE_CHECKING = False  # as in `typing`, whose import takes longer than all of `coterie --version`
if TYPE_CHECKING:
    from coterie.actors.declared import AgentNode, DynamicSupervisor, HTTPGateway, Supervisor, TopologyServer
    from coterie.actors.evaluation import Correction, EvalAgent, EvalEvent
    from coterie.actors.message import Message
    from coterie.actors.plugins.litellm import LiteLLMProvider
    from coterie.actors.plugins.providers import AnthropicProvider, OpenAIProvider
    from coterie.actors.process import AgentProcess, ErrorAction
    from coterie.actors.runtime import Runtime
    from coterie.actors.server import GenServer
    from coterie.actors.state.in_memory import InMemoryStateStore
    from coterie.actors.state.sqlite import SQLiteStateStore
    from coterie.diagnostics import Diagnostic
    from coterie.errors import CoterieError, TopologyError
    from coterie.flows.agents import action, agent, gate, human
    from coterie.flows.build import flow
    from coterie.formats.at.writer import to_at
    from coterie.formats.source import Source
    from coterie.planning.plan import Limits, Plan
    from coterie.runs.api import fork, load, plan, read, resume, run, start
    from coterie.runs.outcome import Outcome
    from coterie.runs.started import RunEvent, StartedRun
    from coterie.topology.model import Topology
    from coterie.topology.typed.flow import TypedFlow

__version__ = "0.1.0"

_PLACES = {
    "AgentNode": "coterie.actors.declared",
    "AgentProcess": "coterie.actors.process",
    "AnthropicProvider": "coterie.actors.plugins.providers",
    "Correction": "coterie.actors.evaluation",
    "CoterieError": "coterie.errors",
    "Diagnostic": "coterie.diagnostics",
    "DynamicSupervisor": "coterie.actors.declared",
    "ErrorAction": "coterie.actors.process",
    "EvalAgent": "coterie.actors.evaluation",
    "EvalEvent": "coterie.actors.evaluation",
    "GenServer": "coterie.actors.server",
    "HTTPGateway": "coterie.actors.declared",
    "InMemoryStateStore": "coterie.actors.state.in_memory",
    "Limits": "coterie.planning.plan",
    "LiteLLMProvider": "coterie.actors.plugins.litellm",
    "Message": "coterie.actors.message",
    "OpenAIProvider": "coterie.actors.plugins.providers",
    "Outcome": "coterie.runs.outcome",
    "Plan": "coterie.planning.plan",
    "RunEvent": "coterie.runs.started",
    "Runtime": "coterie.actors.runtime",
    "SQLiteStateStore": "coterie.actors.state.sqlite",
    "Source": "coterie.formats.source",
    "StartedRun": "coterie.runs.started",
    "Supervisor": "coterie.actors.declared",
    "Topology": "coterie.topology.model",
    "TopologyError": "coterie.errors",
    "TopologyServer": "coterie.actors.declared",
    "TypedFlow": "coterie.topology.typed.flow",
    "action": "coterie.flows.agents",
    "agent": "coterie.flows.agents",
    "flow": "coterie.flows.build",
    "fork": "coterie.runs.api",
    "gate": "coterie.flows.agents",
    "human": "coterie.flows.agents",
    "load": "coterie.runs.api",
    "plan": "coterie.runs.api",
    "read": "coterie.runs.api",
    "resume": "coterie.runs.api",
    "run": "coterie.runs.api",
    "start": "coterie.runs.api",
    "to_at": "coterie.formats.at.writer",
}

__all__ = [
    "AgentNode",
    "AgentProcess",
    "AnthropicProvider",
    "Correction",
    "CoterieError",
    "Diagnostic",
    "DynamicSupervisor",
    "ErrorAction",
    "EvalAgent",
    "EvalEvent",
    "GenServer",
    "HTTPGateway",
    "InMemoryStateStore",
    "Limits",
    "LiteLLMProvider",
    "Message",
    "OpenAIProvider",
    "Outcome",
    "Plan",
    "RunEvent",
    "Runtime",
    "SQLiteStateStore",
    "Source",
    "StartedRun",
    "Supervisor",
    "Topology",
    "TopologyError",
    "TopologyServer",
    "TypedFlow",
    "action",
    "agent",
    "flow",
    "fork",
    "gate",
    "human",
    "load",
    "plan",
    "read",
    "resume",
    "run",
    "start",
    "to_at",
]


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module 'coterie' has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_PLACES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
