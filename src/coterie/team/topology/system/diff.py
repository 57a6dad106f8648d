"""The difference between two supervised systems, by effective values."""

import re
from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct

from coterie.team.topology.checks.systems import is_used
from coterie.team.topology.parts import both, by_name, fields_of
from coterie.team.topology.system.fields import GatewayConfig, PluginFields, PluginsFields, TransportFields
from coterie.team.topology.system.model import System, SystemNode
from coterie.team.topology.system.outline import outline_node, value_in_words

Sign = Literal["+", "-", "~"]


class SystemDifference(Struct, frozen=True, kw_only=True):
    """One difference.

    Attributes:
        section: `Transport`, `Plugins` or `Supervision`.
        sign: `+` added, `-` removed, `~` changed.
        path: `transport/@type`, `/root/writer/@process`; a node without `@` is added or removed as a whole.
        old: The old value in words; empty if added.
        new: The new value in words; empty if removed.
    """

    section: str
    sign: Sign
    path: str
    old: str = ""
    new: str = ""


class _Value(NamedTuple):
    text: str
    is_default: bool = False


_Values = dict[str, _Value]


def diff_systems(old: System, new: System) -> tuple[SystemDifference, ...]:
    """All differences, by section, in the order of *new*; the order of children counts, that of keys does not."""
    return (
        *_compare("Transport", _of_transport(old.transport), _of_transport(new.transport)),
        *_compare("Plugins", _of_plugins(old.plugins), _of_plugins(new.plugins)),
        *_plugin_order(old.plugins, new.plugins),
        *_tree(old, new),
    )


def _compare(section: str, old: _Values, new: _Values) -> Iterator[SystemDifference]:
    for path, after, before in both(new, old):
        if before is not None and after is not None:
            differs = before.text != after.text
        else:
            differs = not any(value.is_default for value in (before, after) if value is not None)
        if differs:
            yield _difference(section, path, before and before.text, after and after.text)


def _difference(section: str, path: str, old: str | None, new: str | None) -> SystemDifference:
    """The difference of two values, of which one may be absent."""
    sign: Sign = "+" if old is None else "-" if new is None else "~"
    return SystemDifference(section=section, sign=sign, path=path, old=old or "", new=new or "")


def _of_transport(transport: TransportFields) -> _Values:
    values = _flat(transport, "transport/@")
    return {path: value for path, value in values.items() if is_used(transport, path.partition("@")[2])}


def _of_plugins(plugins: PluginsFields) -> _Values:
    found: _Values = {}
    for kind, listed in (("models", plugins.models), ("tools", plugins.tools), ("exporters", plugins.exporters)):
        for name, plugin in by_name(listed, attrgetter("type")).items():
            found |= _flat(plugin, f"plugins/{kind}/{name}/@")
    return found | _flat(plugins.state or PluginFields(type="in_memory"), "plugins/state/@")


def _plugin_order(old: PluginsFields, new: PluginsFields) -> Iterator[SystemDifference]:
    """The first model provider that knows a model is used, so their order counts."""
    before, after = ([plugin.type for plugin in one.models] for one in (old, new))
    if before != after and sorted(before) == sorted(after):
        yield _difference("Plugins", "plugins/models/@order", ", ".join(before), ", ".join(after))


def _tree(old: System, new: System) -> Iterator[SystemDifference]:
    section, before, after = "Supervision", _by_name(old.root), _by_name(new.root)
    yield from _compare(section, *({"/@entry": _Value(one.entry)} if one.entry else {} for one in (old, new)))
    for name, (path, node, parent) in after.items():
        if name not in before:
            yield _difference(section, path, None, _label(node))
            continue
        _, earlier, former = before[name]
        if former != parent:
            yield _difference(section, f"{path}/@supervisor", former or old.root.name, parent or new.root.name)
        yield from _compare(section, *(_of_node(one, f"{path}/@") for one in (earlier, node)))
        children = [[child.name for child in one.children] for one in (earlier, node)]
        common = set.intersection(*map(set, children))
        first, then = (", ".join(child for child in some if child in common) for some in children)
        if first != then:
            yield _difference(section, f"{path}/@children", first, then)
    for name, (path, node, _) in before.items():
        if name not in after:
            yield _difference(section, path, _label(node), None)


def _of_node(node: SystemNode, path: str) -> _Values:
    return {f"{path}name": _Value(node.name), f"{path}kind": _Value(node.kind)} | _flat(node.fields, path)


def _by_name(node: SystemNode, above: str = "", parent: str = "") -> dict[str, tuple[str, SystemNode, str]]:
    """Each node with its path and its supervisor's name, by its name; the root's name is `/`, and empty as parent."""
    path = f"{above}/{node.name}"
    found = {node.name if above else "/": (path, node, parent)}
    for child in node.children:
        for name, place in _by_name(child, path, node.name if above else "").items():
            found.setdefault(name, place)
    return found


def _flat(value: msgspec.Struct | Mapping[str, Any], path: str) -> _Values:
    """Each field but the name, tables flattened: `@config.port`."""
    found: _Values = {}
    fields = fields_of(value) if isinstance(value, msgspec.Struct) else ((*item, ...) for item in value.items())
    for name, inner, default in fields:
        if isinstance(value, GatewayConfig) and name == "routes":
            routes = {f"{path}routes.{route.method} {route.path}": route for route in value.routes}
            found |= {key: _Value(f"{route.agent} {route.mode}") for key, route in routes.items()}
        elif isinstance(inner, msgspec.Struct | Mapping):
            found |= _flat(inner, f"{path}{name}.")
        elif isinstance(value, Mapping) or name != "name":
            shown = value.bind_host if isinstance(value, GatewayConfig) and name == "host" else inner
            key = f"{path}{name}"
            found[key] = _Value(value_in_words(re.split("[.@]", key)[-1], shown), shown == default)
    return found


def _label(node: SystemNode) -> str:
    outlined = outline_node(node)
    return "  ".join((*outlined.about, *outlined.settings))
