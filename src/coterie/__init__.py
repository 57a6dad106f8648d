"""Run teams of AI agents that survive being killed.

A team is declared in a file. Every run writes a journal, so a run that was interrupted anywhere can be resumed, and
finished work is never repeated.

    import asyncio, coterie

    topology = coterie.load("review.at")
    outcome = asyncio.run(coterie.run(topology, {"prompt": "Review this repository."}))

The names below are imported on first use, so that `import coterie` is fast.
"""

import sys

TYPE_CHECKING = False  # as in `typing`, whose import takes longer than all of `coterie --version`
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

    from coterie.agents.actors.context import Context as Context
    from coterie.agents.actors.context import current as current
    from coterie.agents.actors.declared import AgentNode as AgentNode
    from coterie.agents.actors.declared import DynamicSupervisor as DynamicSupervisor
    from coterie.agents.actors.declared import HTTPGateway as HTTPGateway
    from coterie.agents.actors.declared import Supervisor as Supervisor
    from coterie.agents.actors.declared import TopologyServer as TopologyServer
    from coterie.agents.actors.evaluation import Correction as Correction
    from coterie.agents.actors.evaluation import EvalAgent as EvalAgent
    from coterie.agents.actors.evaluation import EvalEvent as EvalEvent
    from coterie.agents.actors.message import Message as Message
    from coterie.agents.actors.plugins.litellm import LiteLLMProvider as LiteLLMProvider
    from coterie.agents.actors.plugins.providers import AnthropicProvider as AnthropicProvider
    from coterie.agents.actors.plugins.providers import OpenAIProvider as OpenAIProvider
    from coterie.agents.actors.process import AgentProcess as AgentProcess
    from coterie.agents.actors.process import ErrorAction as ErrorAction
    from coterie.agents.actors.runtime import Runtime as Runtime
    from coterie.agents.actors.server import GenServer as GenServer
    from coterie.agents.actors.state.in_memory import InMemoryStateStore as InMemoryStateStore
    from coterie.agents.actors.state.sqlite import SQLiteStateStore as SQLiteStateStore
    from coterie.base.diagnostics import Diagnostic as Diagnostic
    from coterie.base.version import __version__ as __version__
    from coterie.errors import CoterieError as CoterieError
    from coterie.errors import TopologyError as TopologyError
    from coterie.execution.runs.api import fork as fork
    from coterie.execution.runs.api import get as get
    from coterie.execution.runs.api import load as load
    from coterie.execution.runs.api import plan as plan
    from coterie.execution.runs.api import read as read
    from coterie.execution.runs.api import resume as resume
    from coterie.execution.runs.api import run as run
    from coterie.execution.runs.api import runs as runs
    from coterie.execution.runs.api import start as start
    from coterie.execution.runs.outcome import Outcome as Outcome
    from coterie.execution.runs.recovery import Recovery as Recovery
    from coterie.execution.runs.recovery import recover as recover
    from coterie.execution.runs.started import Run as Run
    from coterie.execution.runs.started import RunEvent as RunEvent
    from coterie.execution.runs.started import RunText as RunText
    from coterie.execution.runs.started import StartedRun as StartedRun
    from coterie.flows.agents import action as action
    from coterie.flows.agents import agent as agent
    from coterie.flows.agents import gate as gate
    from coterie.flows.agents import human as human
    from coterie.flows.build import flow as flow
    from coterie.flows.programs import first as first
    from coterie.flows.programs import note as note
    from coterie.flows.programs import now as now
    from coterie.flows.programs import program as program
    from coterie.flows.programs import random as random
    from coterie.flows.programs import sleep as sleep
    from coterie.flows.programs import together as together
    from coterie.history.engines.questions import AgentFailed as AgentFailed
    from coterie.proofs import Report as Report
    from coterie.proofs import check as check
    from coterie.team.formats.at.writer import to_at as to_at
    from coterie.team.formats.source import Source as Source
    from coterie.team.planning.plan import Limits as Limits
    from coterie.team.planning.plan import Plan as Plan
    from coterie.team.topology.model import Topology as Topology
    from coterie.team.topology.typed.flow import TypedFlow as TypedFlow
    from coterie.team.topology.typed.program import TypedProgram as TypedProgram

_EXPORTS = {
    "coterie.agents.actors.context": "Context current",
    "coterie.agents.actors.declared": "AgentNode DynamicSupervisor HTTPGateway Supervisor TopologyServer",
    "coterie.agents.actors.evaluation": "Correction EvalAgent EvalEvent",
    "coterie.agents.actors.message": "Message",
    "coterie.agents.actors.plugins.litellm": "LiteLLMProvider",
    "coterie.agents.actors.plugins.providers": "AnthropicProvider OpenAIProvider",
    "coterie.agents.actors.process": "AgentProcess ErrorAction",
    "coterie.agents.actors.runtime": "Runtime",
    "coterie.agents.actors.server": "GenServer",
    "coterie.agents.actors.state.in_memory": "InMemoryStateStore",
    "coterie.agents.actors.state.sqlite": "SQLiteStateStore",
    "coterie.base.diagnostics": "Diagnostic",
    "coterie.base.version": "__version__",
    "coterie.errors": "CoterieError TopologyError",
    "coterie.execution.runs.api": "fork get load plan read resume run runs start",
    "coterie.execution.runs.outcome": "Outcome",
    "coterie.execution.runs.recovery": "Recovery recover",
    "coterie.execution.runs.started": "Run RunEvent RunText StartedRun",
    "coterie.flows.agents": "action agent gate human",
    "coterie.flows.build": "flow",
    "coterie.flows.programs": "first note now program random sleep together",
    "coterie.history.engines.questions": "AgentFailed",
    "coterie.proofs": "Report check",
    "coterie.team.formats.at.writer": "to_at",
    "coterie.team.formats.source": "Source",
    "coterie.team.planning.plan": "Limits Plan",
    "coterie.team.topology.model": "Topology",
    "coterie.team.topology.typed.flow": "TypedFlow",
    "coterie.team.topology.typed.program": "TypedProgram",
}
_PLACES = {name: module for module, names in _EXPORTS.items() for name in names.split()}

__all__ = sorted(name for name in _PLACES if name != "__version__")


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module 'coterie' has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_PLACES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


_STOREYS = {
    "base": "clock diagnostics escapes file_fingerprint files ids shortages waits",
    "team": "formats options planning topology",
    "history": "engines journal views",
    "agents": "actors backends workspace",
    "execution": "cluster kernel kinds runs",
    "interfaces": "cli lsp ui",
}
_MOVED = {package: storey for storey, packages in _STOREYS.items() for package in packages.split()}


class _EarlierNames:
    """Finds modules under the names that they had before the package had storeys: `coterie.backends` and others."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> "ModuleSpec | None":
        top, _, below = name.partition(".")
        storey = _MOVED.get(below.partition(".")[0]) if top == "coterie" else None
        if storey is None:
            return None
        from coterie.base.moved import spec as spec

        return spec(name, f"coterie.{storey}.{below}")


sys.meta_path.insert(0, _EarlierNames)  # before the finder that would load a second copy from the folder
