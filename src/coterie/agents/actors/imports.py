"""Import the classes that a supervised system names, before it starts."""

from collections.abc import Iterator

from coterie.agents.actors.classes import importable, load_class, load_middleware
from coterie.agents.actors.evaluation import EvalAgent
from coterie.agents.actors.plugins.loading import faults
from coterie.agents.actors.process import AgentProcess
from coterie.base.diagnostics import Diagnostic, error
from coterie.errors import CannotStart, ClassNotFound, PluginError
from coterie.team.topology.system.fields import AgentFields, DynamicFields, EvalFields, GatewayFields
from coterie.team.topology.system.model import System, SystemNode


def import_classes(
    system: System, folder: str = "", *, to_run: bool = False, process: str | None = None
) -> list[Diagnostic]:
    """Import the agent classes and plugins that *system* names by dotted paths; return an error for each failure.

    It also searches the working directory and *folder*, that of the file. Importing runs the user's modules.

    Args:
        to_run: Also report short names of classes, which only a program can resolve.
        process: Import only for this process: a worker's name, or empty for that of the supervisors.
    """
    importable(folder)
    hosted = (
        node
        for node in system.root.walk()
        if process is None or system.transport.type == "in_process" or getattr(node.fields, "process", "") == process
    )
    at_plugins = (plugin_fault(system, fault) for fault in faults(system.plugins))
    return [*at_plugins, *(found for node in hosted for found in _check(node, to_run))]


def plugin_fault(system: System, fault: PluginError) -> Diagnostic:
    """The diagnostic for *fault*, a plugin of *system*, at its declaration in the file."""
    place = f"{fault.place}.type"
    while place and place not in system.spans:
        place = place.rpartition(".")[0]
    return error(
        "bad-plugin", f"{fault.kind} plugin {fault.name!r}: {fault.reason}", system.spans.get(place), fault.hint
    )


def _check(node: SystemNode, to_run: bool) -> Iterator[Diagnostic]:
    named: dict[str, tuple[str, type | None]] = {}
    match node.fields:
        case AgentFields(type=path):
            named = {"type": (path, AgentProcess)}
        case EvalFields(class_=path) if path:
            named = {"class": (path, EvalAgent)}
        case DynamicFields(config=config):
            named = {f"config.allow.{at}": (path, AgentProcess) for at, path in enumerate(config.allow)}
        case GatewayFields(config=gateway):
            named = {f"config.middleware.{at}": (path, None) for at, path in enumerate(gateway.middleware)}
    for place, (path, base) in named.items():
        span = node.spans.get(place) or node.span
        if "." not in path:
            if to_run:
                hint = "write package.module.Class; short names are for Runtime.from_config"
                yield error("no-such-class", f"{node.title}: {path!r} has no module", span, hint)
            continue
        try:
            found = load_class(path) if base is not None else load_middleware(path)
        except ClassNotFound as failure:
            hint = "searched: the working directory, the file's folder, installed packages"
            yield error("no-such-class", f"{node.title}: {failure}", span, hint)
            continue
        except CannotStart as failure:
            yield error("no-such-class", f"{node.title}: {failure}", span)
            continue
        if base is not None and not issubclass(found, base):
            yield error("no-such-class", f"{node.title}: {path!r} is no {base.__name__}", span)
