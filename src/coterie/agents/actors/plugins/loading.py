"""Make the plugins that a plan names.

A name is a built-in plugin, or else an entry point of the group `coterie.KIND`, or else the dotted path of a class or,
for tools, of a function: `package.module.Name` or `package.module:Name`.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from operator import attrgetter
from typing import Any

from coterie.agents.backends.secrets import is_secret
from coterie.base import agent_writes
from coterie.base.diagnostics import did_you_mean
from coterie.base.user_code import contained
from coterie.errors import CoterieError, ExtraMissing, PluginError
from coterie.team.planning.system import PluginPlan, PluginsPlan
from coterie.team.topology.plugin_names import BUILT_IN, installed, unknown_name

_PLACES: Mapping[tuple[str, str], str] = {
    ("model", "anthropic"): "coterie.agents.actors.plugins.providers:AnthropicProvider",
    ("model", "litellm"): "coterie.agents.actors.plugins.litellm:LiteLLMProvider",
    ("model", "openai"): "coterie.agents.actors.plugins.providers:OpenAIProvider",
    ("exporter", "console"): "coterie.agents.actors.plugins.console:ConsoleExporter",
    ("exporter", "otlp"): "coterie.agents.actors.plugins.otlp:OtlpExporter",
    ("state", "in_memory"): "coterie.agents.actors.state.in_memory:InMemoryStateStore",
    ("state", "sqlite"): "coterie.agents.actors.state.sqlite:SQLiteStateStore",
}

METHODS: Mapping[str, tuple[str, ...]] = {
    "model": ("chat",),
    "tool": (),
    "exporter": ("export",),
    "state": ("get", "set"),
}
"""The attributes that a plugin of each kind must have."""


def make(kind: str, plan: PluginPlan, place: str = "") -> Any:
    """Make the plugin that *plan* names, with its `config`.

    Args:
        kind: `model`, `tool`, `exporter` or `state`.
        place: Where the plan comes from, `plugins.models.0`, for the error.

    Raises:
        PluginError: If it cannot be found, imported or constructed.
    """
    made = _find(kind, plan, place)
    if kind == "tool" and not inspect.isclass(made):
        return made
    try:
        with contained():
            plugin = made(**plan.config)
            if (check := getattr(plugin, "check_installed", None)) is not None:
                check()
    except PluginError as error:
        raise PluginError(kind, plan.type, error.reason, error.hint, place=_below(place, error.place)) from error
    except ExtraMissing as error:
        reason, hint = f"it needs {error.library!r}, which is not installed", f"pip install 'coterie[{error.extra}]'"
        raise PluginError(kind, plan.type, reason, hint, place=place) from error
    except CoterieError as error:
        raise PluginError(kind, plan.type, str(error), place=place) from error
    except Exception as error:  # a user's constructor may raise anything
        reason = f"it cannot be constructed: {type(error).__name__}: {error}"
        raise PluginError(kind, plan.type, reason, place=place) from error
    missing = [name for name in METHODS[kind] if not callable(getattr(plugin, name, None))]
    if missing or (kind == "tool" and not callable(plugin)):
        lacks = f"the method {missing[0]!r}" if missing else "a method '__call__'"
        raise PluginError(
            kind, plan.type, f"{type(plugin).__qualname__} is no {kind} plugin: it lacks {lacks}", place=place
        )
    return plugin


def faults(plans: PluginsPlan) -> Iterator[PluginError]:
    """The problems of *plans* that importing shows; plugins that are not built in are not constructed."""
    for kind, place, plan in each(plans):
        try:
            (make if plan.type in BUILT_IN[kind] else _find)(kind, plan, place)
        except PluginError as error:
            yield error


def each(plans: PluginsPlan) -> Iterator[tuple[str, str, PluginPlan]]:
    """The kind, the place and the plan of each plugin."""
    for kind, field in (("model", "models"), ("tool", "tools"), ("exporter", "exporters")):
        for n, plan in enumerate(getattr(plans, field)):
            yield kind, f"plugins.{field}.{n}", plan
    if plans.state is not None:
        yield "state", "plugins.state", plans.state


def _find(kind: str, plan: PluginPlan, place: str) -> Callable[..., Any]:
    """Find the class or function of *plan*, and check its `config` against the constructor."""
    name = plan.type
    if unknown := unknown_name(kind, name):
        raise PluginError(kind, name, *unknown, place=place)
    path = _PLACES.get((kind, name), "")
    agent_writes.guard_imports()
    try:
        if not path and (points := installed(kind).get(name)):
            path = points[0].value
            with contained():
                found = points[0].load()
        else:
            path = path or name
            module, _, inside = path.partition(":") if ":" in path else path.rpartition(".")
            with contained():
                found = attrgetter(inside)(import_module(module))
    except Exception as error:  # importing runs the code of others, which may raise anything
        at = f" from {path!r}" if path != name else ""
        reason = f"it cannot be imported{at}: {type(error).__name__}: {error}"
        raise PluginError(kind, name, reason, "the working directory is searched, too", place=place) from error
    if not callable(found) or (kind != "tool" and not inspect.isclass(found) and not inspect.isfunction(found)):
        raise PluginError(kind, name, f"{path!r} is {_described(found)}, not a class", place=place)
    if kind == "tool" and not inspect.isclass(found):
        if plan.config:
            raise PluginError(kind, name, "a function has no config", "make it a class with __call__", place=place)
        return found  # type: ignore[no-any-return]
    _check_config(kind, plan, found, place)
    return found  # type: ignore[no-any-return]


def _check_config(kind: str, plan: PluginPlan, made: Callable[..., Any], place: str) -> None:
    try:
        signature = inspect.signature(made)
    except (TypeError, ValueError):  # a class in C
        return
    known = {name: each.kind for name, each in signature.parameters.items()}
    unknown = [key for key in plan.config if key not in known]
    if unknown and inspect.Parameter.VAR_KEYWORD not in known.values():
        hint = did_you_mean(unknown[0], known) or (f"it has {', '.join(known)}" if known else "it has none")
        raise PluginError(kind, plan.type, f"it has no setting {unknown[0]!r}", hint, place=_below(place, unknown[0]))
    if secret := next((key for key, value in plan.config.items() if is_secret(key, str(value))), ""):
        reason = f"the value of {secret!r} would be in the file and in the journal"
        hint = "read it from the environment in the constructor" if "." in plan.type else "set it in the environment"
        raise PluginError(kind, plan.type, reason, hint, place=_below(place, secret))
    try:
        signature.bind(**plan.config)
    except TypeError as error:
        raise PluginError(kind, plan.type, f"its config is incomplete: {error}", place=place) from error


def _below(place: str, key: str) -> str:
    """The place of a key in the config of the plugin at *place*."""
    return f"{place}.config.{key}" if place and key else place


def plan_of(kind: str, plugin: object) -> PluginPlan:
    """The plan of a *plugin* that was made in Python: its built-in name or dotted path, and its arguments."""
    made = plugin if inspect.isfunction(plugin) else type(plugin)
    path = f"{made.__module__}:{made.__qualname__}"
    name = next((name for (of, name), place in _PLACES.items() if of == kind and place == path), "")
    config = {key: value for key, value in getattr(plugin, "config", {}).items() if not is_secret(key, str(value))}
    return PluginPlan(type=name or path.replace(":", "."), config=config)


def _described(value: object) -> str:
    return "a module" if inspect.ismodule(value) else f"of type {type(value).__name__}"
