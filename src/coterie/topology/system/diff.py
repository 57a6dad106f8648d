"""The difference between two supervised systems, by effective values."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from msgspec.structs import fields as fields_of

from coterie.topology.checks.systems import is_used
from coterie.topology.system.fields import GatewayConfig, PluginFields, PluginsFields, TransportFields
from coterie.topology.system.model import System, SystemNode
from coterie.topology.system.outline import outline_node, value_in_words

Sign = Literal["+", "-", "~"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemDifference:
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


@dataclass(frozen=True, slots=True)
class _Value:
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
    for path in dict.fromkeys((*new, *old)):
        before, after = old.get(path), new.get(path)
        if before is not None and after is not None:
            if before.text != after.text:
                yield SystemDifference(section=section, sign="~", path=path, old=before.text, new=after.text)
        elif after is not None and not after.is_default:
            yield SystemDifference(section=section, sign="+", path=path, new=after.text)
        elif before is not None and not before.is_default:
            yield SystemDifference(section=section, sign="-", path=path, old=before.text)


def _of_transport(transport: TransportFields) -> _Values:
    values = _flat(transport, "transport/@")
    return {path: value for path, value in values.items() if is_used(transport, path.partition("@")[2])}


def _of_plugins(plugins: PluginsFields) -> _Values:
    found: _Values = {}
    for kind, listed in (("models", plugins.models), ("tools", plugins.tools), ("exporters", plugins.exporters)):
        counts: dict[str, int] = {}
        for plugin in listed:
            number = counts[plugin.type] = counts.get(plugin.type, 0) + 1
            name = plugin.type if number == 1 else f"{plugin.type}#{number}"
            found |= _flat(plugin, f"plugins/{kind}/{name}/@")
    found |= _flat(plugins.state or PluginFields(type="in_memory"), "plugins/state/@")
    return found


def _plugin_order(old: PluginsFields, new: PluginsFields) -> Iterator[SystemDifference]:
    """The first model provider that knows a model is used, so their order counts."""
    before, after = ([plugin.type for plugin in one.models] for one in (old, new))
    if before != after and sorted(before) == sorted(after):
        path = "plugins/models/@order"
        yield SystemDifference(section="Plugins", sign="~", path=path, old=", ".join(before), new=", ".join(after))


def _tree(old: System, new: System) -> Iterator[SystemDifference]:
    before, after = _by_name(old), _by_name(new)
    entries = ({"/@entry": _Value(one.entry)} if one.entry else {} for one in (old, new))
    yield from _compare("Supervision", *entries)
    for name, (path, node, parent) in after.items():
        if name not in before:
            yield SystemDifference(section="Supervision", sign="+", path=path, new=_label(node))
            continue
        _, earlier, former = before[name]
        if former != parent:
            yield _changed(f"{path}/@supervisor", former or old.root.name, parent or new.root.name)
        if earlier.name != node.name:
            yield _changed(f"{path}/@name", earlier.name, node.name)
        if earlier.kind != node.kind:
            yield _changed(f"{path}/@kind", earlier.kind, node.kind)
        yield from _compare("Supervision", _flat(earlier.fields, f"{path}/@"), _flat(node.fields, f"{path}/@"))
        yield from _order(path, earlier, node)
    for name, (path, node, _) in before.items():
        if name not in after:
            yield SystemDifference(section="Supervision", sign="-", path=path, old=_label(node))


def _order(path: str, old: SystemNode, new: SystemNode) -> Iterator[SystemDifference]:
    """The difference in start order of the children that both have."""
    before, after = ([child.name for child in node.children] for node in (old, new))
    both = set(before) & set(after)
    first, then = ([name for name in names if name in both] for names in (before, after))
    if first != then:
        yield _changed(f"{path}/@children", ", ".join(first), ", ".join(then))


def _by_name(system: System) -> dict[str, tuple[str, SystemNode, str]]:
    """Each node with its path and its supervisor's name, by its name; the root's name is `/`, and empty as parent."""
    found: dict[str, tuple[str, SystemNode, str]] = {"/": (f"/{system.root.name}", system.root, "")}

    def add(node: SystemNode, path: str) -> None:
        for child in node.children:
            parent = node.name if node is not system.root else ""
            found.setdefault(child.name, (f"{path}/{child.name}", child, parent))
            add(child, f"{path}/{child.name}")

    add(system.root, f"/{system.root.name}")
    return found


def _flat(fields: msgspec.Struct, path: str) -> _Values:
    """Each field but the name, tables flattened: `@config.port`."""
    found: _Values = {}
    for field in fields_of(type(fields)):
        if field.name != "name":
            default = field.default if field.default is not msgspec.NODEFAULT else None
            found |= _value(f"{path}{field.encode_name}", getattr(fields, field.name), default, fields)
    return found


def _value(path: str, value: Any, default: Any, owner: msgspec.Struct) -> _Values:
    name = path.rpartition("@")[2].rpartition(".")[2]
    if isinstance(value, msgspec.Struct):
        return _flat(value, f"{path}.")
    if isinstance(value, Mapping):
        return {
            key: each for inner in value for key, each in _value(f"{path}.{inner}", value[inner], ..., owner).items()
        }
    if isinstance(owner, GatewayConfig) and name == "routes":
        routes = {f"{path}.{route.method} {route.path}": f"{route.agent} {route.mode}" for route in owner.routes}
        return {key: _Value(text) for key, text in routes.items()}
    if isinstance(owner, GatewayConfig) and name == "host":
        value = owner.bind_host
    return {path: _Value(value_in_words(name, value), value == default)}


def _label(node: SystemNode) -> str:
    outlined = outline_node(node)
    return "  ".join((*outlined.about, *outlined.settings))


def _changed(path: str, old: str, new: str) -> SystemDifference:
    return SystemDifference(section="Supervision", sign="~", path=path, old=old, new=new)
