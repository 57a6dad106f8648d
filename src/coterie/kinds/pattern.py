"""Runs that a pattern coordinates."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from coterie.engines import generator
from coterie.engines.commands import Engine
from coterie.errors import UsageError
from coterie.kernel import prompts
from coterie.kernel.commands import Part, Turn
from coterie.kernel.fold import Fold
from coterie.kernel.kind import Kind
from coterie.planning.pattern import PatternPlan
from coterie.planning.plan import AgentPlan, Plan
from coterie.topology.patterns.inputs import ORIGINAL

if TYPE_CHECKING:
    from coterie.topology.patterns.faults import Fault


class PatternKind(Kind):
    """A pattern: a named collaboration, ours or a user's own."""

    prover: ClassVar[str] = "coterie.proofs.pattern:prove_pattern"

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._pattern: PatternPlan = plan.coordination

    def make_engine(self) -> tuple[Engine, Mapping[str, AgentPlan]]:
        """The pattern, and the agents of its slots."""
        from coterie.engines.patterns.engine import PatternEngine  # few runs have one

        add_folders(self.plan)
        return PatternEngine(self._pattern, self.plan.agents), self.plan.agents

    def asked(self) -> Iterable[str]:
        """All agents of the plan."""
        return self.plan.agents

    def check_input(self, given: Mapping[str, Any]) -> None:
        """See that the input holds what the pattern works on."""
        from coterie.engines.patterns.engine import input_faults

        for fault in input_faults(self.plan, given):
            raise UsageError(f"{self.plan.name}: {_sentence(fault)}")

    def input_below(self, given: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
        """Add the input of the outermost run, as `original_input`, unless *given* holds all of it."""
        if ORIGINAL in given or all(name in given and given[name] == value for name, value in above.items()):
            return given
        return {**given, ORIGINAL: above.get(ORIGINAL, above)}

    def outside(self, fold: Fold, turn: Turn) -> tuple[str, ...]:
        """The files that an agent `reads`."""
        agent = fold.agents.get(turn.ask.agent)
        if turn.ask.prompt is None or agent is None:
            return super().outside(fold, turn)
        return prompts.files_named(agent.reads)

    def additions(self, fold: Fold, turn: Turn) -> list[Part]:
        """The files that an agent `reads`, and how to give the outputs that it declares: the pattern knows neither."""
        agent = fold.agents.get(turn.ask.agent)
        if agent is None:
            return []
        how = prompts.how_to_answer(agent.outputs, human=agent.kind == "human")
        return [*prompts.file_parts(agent.reads, turn), *how]

    def mentions(self) -> Iterable[str]:
        """The slots."""
        return [slot.name for slot in self._pattern.slots]


class StandInKind(PatternKind):
    """A user's pattern that is not imported: each of its slots is called once, in order."""

    def make_engine(self) -> tuple[Engine, Mapping[str, AgentPlan]]:
        """What asks the slots."""

        def each_once(given: dict[str, Any]) -> generator.Conversation:
            texts = []
            for slot in self._pattern.slots:
                texts.append((yield generator.Question(slot.name, str(given.get("prompt", "")))).text)
            return {"text": "\n\n".join(texts)}

        return generator.GeneratorEngine(each_once, self.plan.agents), self.plan.agents


def check_own_patterns(plan: Plan) -> None:
    """See that each pattern of a user's own in the tree of *plan* can be loaded, and knows the settings it is given.

    Raises:
        UsageError: If not.
    """
    own = list(own_patterns(plan))
    if not own:
        return
    from coterie.engines.patterns.registry import definition
    from coterie.topology.patterns.kinds import read_config

    add_folders(plan)
    for one in own:
        pattern: PatternPlan = one.coordination
        _, wrong = read_config(definition(pattern.type).kind.config, pattern.config)
        for fault in wrong:
            raise UsageError(f"{one.name}: {_sentence(fault)}")


def add_folders(plan: Plan) -> None:
    """Let Python import a user's own patterns from beside the files that name them, after all else."""
    for own in own_patterns(plan):
        if own.folder and own.folder not in sys.path:
            sys.path.append(own.folder)  # at the end: a file beside a topology hides no other module


def own_patterns(plan: Plan) -> Iterator[Plan]:
    """The plans in the tree of *plan* that are patterns of a user's own."""
    if own_pattern(plan):
        yield plan
    for agent in plan.agents.values():
        if agent.child is not None:
            yield from own_patterns(agent.child)


def own_pattern(plan: Plan) -> str:
    """The code that coordinates *plan*, `module:function`, if it is a pattern of a user's own; else empty."""
    pattern = plan.coordination
    return pattern.type if isinstance(pattern, PatternPlan) and ":" in pattern.type else ""


def _sentence(fault: "Fault") -> str:
    return f"{fault.message}; {fault.hint}" if fault.hint else fault.message
