"""A team whose plan is an `async def`; `coterie.program` makes one."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Generic, NoReturn, TypeVar

from coterie.errors import UsageError, error_line
from coterie.team.topology.typed.flow import TypedFlow
from coterie.team.topology.typed.functions import PROMPT, Signature
from coterie.team.topology.typed.values import converted, value_of

T = TypeVar("T")


class TypedProgram(TypedFlow[T], Generic[T], frozen=True, kw_only=True):
    """A program: an `async def` that asks agents. It is a team, which runs, and works at nodes, like any other.

    Attributes:
        function: The `async def`; *signature* are its parameters and the type of its result.
    """

    uncompared = TypedFlow.uncompared | {"function", "signature"}

    function: Callable[..., Coroutine[Any, Any, Any]] | None = None
    signature: Signature = Signature({}, frozenset(), Any)

    @property
    def answered_by(self) -> str:
        """The name under which its result is among the outputs of a run."""
        return self.name

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse a call, which would journal nothing."""
        raise UsageError(
            f"{self.name} is a program, and a run of it is journalled: await coterie.run({self.name}, INPUT); in "
            f"another program make it an agent, agent({self.name!r}, {self.name})"
        )

    @property
    def path(self) -> str:
        """The path by which a resumed run finds it, `module:name`."""
        return self.pattern.type if self.pattern is not None else ""

    def begin(self, arguments: Mapping[str, Any]) -> Coroutine[Any, Any, Any]:
        """Call its function."""
        assert self.function is not None
        return self.function(**arguments)

    def arguments(
        self, given: Mapping[str, Any], answers: Sequence[Mapping[str, Any]] = (), above: Mapping[str, Any] = {}
    ) -> dict[str, Any]:
        """The arguments of its function, from the input *given* of a run.

        The prompt is the first parameter without a value, those without a default before others.

        Args:
            answers: The answers before its node, the latest first; a parameter may have the name of an agent or of an
                output. *above* are the named values of the runs above.

        Raises:
            ValueError: If a parameter has no value, or one of another type.
        """
        types, found, name = self.signature.parameters, dict[str, Any](), ""
        named = [{_word(key): one for key, one in answer["outputs"].items()} for answer in answers]
        try:
            for name, type_ in types.items():
                whole = None if name in given else next((one for one in answers if _word(one["agent"]) == name), None)
                if whole is not None:
                    found[name] = value_of(type_, whole["outputs"], whole["text"], is_none="is_none" in whole)
                elif (holder := next((one for one in (given, *named, above) if name in one), None)) is not None:
                    found[name] = converted(holder[name], type_)
            free = sorted((one for one in types if one not in found), key=lambda one: one in self.signature.optional)
            if free and given.get(PROMPT):
                name = free[0]
                found[name] = converted(given[PROMPT], types[name])
        except ValueError as error:
            raise ValueError(f"the input {name!r} of {self.name} does not have its type: {error_line(error)}") from None
        if missing := [one for one in types if one not in found and one not in self.signature.optional]:
            listed = ", ".join(map(repr, missing))
            raise ValueError(f"{self.name} has no value for {listed}; give it with --input {missing[0]}=…")
        return found


def _word(name: str) -> str:
    return name.replace("-", "_")
