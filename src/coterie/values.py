"""`dataclass`, as in the standard library, at a sixth of the time while a module is imported.

The standard library generates and compiles up to seven methods for each class. Here the methods of all classes are
shared functions, and only `__init__` is generated, when it is first called: most classes are never used in a run.
"""

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, frozen: bool = False, slots: bool = False, kw_only: bool = False) -> Callable[[type], type]:
        """Return a decorator that makes a class a dataclass."""

        def decorate(cls: type) -> type:
            own = set(vars(cls))
            made = dataclasses.dataclass(cls, init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)
            methods = {"__init__": _init(made, frozen), "__repr__": _repr} | _comparison(made)
            if frozen:
                methods |= {"__setattr__": _refuse, "__delattr__": _refuse}
                methods |= {"__getstate__": _state, "__setstate__": _set_state} if slots else {}
            else:
                methods["__hash__"] = None
            for name in methods.keys() - own:
                setattr(made, name, methods[name])
            return made

        return decorate


def _init(made: type, frozen: bool) -> Callable[..., None]:
    """Return an `__init__` for *made* that replaces itself when it is first called."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        namespace: dict[str, Any] = {"assign": object.__setattr__, "MISSING": dataclasses.MISSING}
        parameters, lines = [[], ["*"]], []
        for each in dataclasses.fields(made):
            name, default = each.name, ""
            value = name
            if each.default is not dataclasses.MISSING:
                namespace[f"default_{name}"], default = each.default, f"=default_{name}"
            elif each.default_factory is not dataclasses.MISSING:
                namespace[f"make_{name}"], default = each.default_factory, "=MISSING"
                value = f"make_{name}() if {name} is MISSING else {name}"
            parameters[bool(each.kw_only)].append(name + default)
            lines.append(f"assign(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
        if hasattr(made, "__post_init__"):
            lines.append("self.__post_init__()")
        words = ", ".join(["self", *parameters[0], *(parameters[1] if parameters[1][1:] else ())])
        exec(f"def __init__({words}):\n  " + "\n  ".join(lines or ["pass"]), namespace)
        init = namespace["__init__"]
        init.__qualname__ = f"{made.__qualname__}.__init__"
        setattr(made, "__init__", init)  # noqa: B010 - mypy refuses the assignment
        init(self, *args, **kwargs)

    return __init__


def _comparison(made: type) -> dict[str, Any]:
    """Return `__eq__` and `__hash__` of *made*."""
    compared = [each.name for each in dataclasses.fields(made) if each.compare]
    values: Callable[[Any], Any] = attrgetter(*compared) if compared else lambda one: ()

    def __eq__(self: Any, other: Any) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:
        return hash(values(self))

    return {"__eq__": __eq__, "__hash__": __hash__}


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in dataclasses.fields(self) if each.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse(self: Any, name: str, *value: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot {'assign to' if value else 'delete'} field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for each, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)
