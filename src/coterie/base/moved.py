"""Modules under the names that they had before the package had storeys.

Programs, plans and journals name modules: `coterie.backends`, or the function of a pattern as `module:function`. Such a
name loads the module that is meant, not a copy of it.
"""

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType


class _Package(ModuleType):
    """A package in which a module does not replace a function of the same name, as `runs` of `coterie`.

    Importing `a.b` sets the attribute `b` of `a`; a function of that name stays, and so does one that is loaded on use.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and callable(getattr(self, name, None))):
            super().__setattr__(name, value)


class _Loader:
    """Loads the module of another name, and leaves it as that name loaded it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self._name)
        sys.modules[spec.name.rpartition(".")[0]].__class__ = _Package
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


def spec(name: str, now: str) -> ModuleSpec:
    """How to import *name*, an earlier name of the module *now*."""
    return ModuleSpec(name, _Loader(now))  # type: ignore[arg-type]  # the protocol asks for a subclass
