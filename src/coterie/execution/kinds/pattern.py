"""The kind of runs that a pattern coordinates."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from coterie.errors import UsageError
from coterie.execution.kernel import prompts
from coterie.execution.kernel.commands import Part, Turn
from coterie.execution.kernel.fold import Fold
from coterie.execution.kernel.kind import Kind
from coterie.history.engines import generator, questions
from coterie.history.engines.commands import Engine
from coterie.team.planning.pattern import PatternPlan
from coterie.team.planning.plan import AgentPlan, Plan
from coterie.team.topology.patterns.inputs import ORIGINAL

if TYPE_CHECKING:
    from coterie.team.topology.patterns.faults import Fault


class PatternKind(Kind):
    """A pattern: a named collaboration, built in or user-defined."""

    prover: ClassVar[str] = "coterie.proofs.pattern:prove_pattern"

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._pattern: PatternPlan = plan.coordination
        self.has_randomness = self._pattern.max_turns is not None

    def make_engine(self) -> tuple[Engine, Mapping[str, AgentPlan]]:
        """The pattern's engine, with the agents of its slots."""
        from coterie.history.engines.patterns.engine import PatternEngine  # few runs have one

        add_folders(self.plan)
        if self._pattern.max_turns is None:
            return PatternEngine(self._pattern, self.plan.agents), self.plan.agents
        from coterie.history.engines.patterns.program import ProgramEngine

        return ProgramEngine(self._pattern, self.plan.agents), self.plan.agents

    def close(self) -> None:
        """Close the pattern's code."""
        assert isinstance(self.engine, generator.GeneratorEngine)
        self.engine.close()

    def notices(self) -> Iterable[str]:
        """The questions of a program that it did not await, so that they were not asked."""
        return [
            f"{self.plan.name} called {agent}(…) and never awaited it, so it was not asked: write `await {agent}(…)`"
            for agent in getattr(self.engine, "unawaited", ())
        ]

    def asked(self) -> Iterable[str]:
        """All agents of the plan."""
        return self.plan.agents

    def check_input(self, given: Mapping[str, Any]) -> None:
        """Check that the input has the values that the pattern needs."""
        from coterie.history.engines.patterns.engine import input_faults

        for fault in input_faults(self.plan, given):
            raise UsageError(f"{self.plan.name}: {_sentence(fault)}")

    def input_below(self, given: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
        """Add the input of the outermost run, as `original_input`, unless *given* contains all of it."""
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
        """The files that an agent `reads`, and how to give its declared outputs: the pattern knows neither.

        A team gets no instructions for answering: each of its agents gets those for its own outputs.
        """
        agent = fold.agents.get(turn.ask.agent)
        if agent is None:
            return []
        how = prompts.how_to_answer(agent.outputs, human=agent.kind == "human") if agent.child is None else []
        return [*prompts.file_parts(agent.reads, turn), *how]

    def mentions(self) -> Iterable[str]:
        """The slots."""
        return [slot.name for slot in self._pattern.slots]


class StandInKind(PatternKind):
    """Replaces a user-defined pattern that is not imported: each slot is called once, in order."""

    def make_engine(self) -> tuple[Engine, Mapping[str, AgentPlan]]:
        """An engine that calls each slot once, with their agents."""

        def each_once(given: dict[str, Any]) -> questions.Conversation:
            texts = []
            for slot in self._pattern.slots:
                texts.append((yield questions.Question(slot.name, str(given.get("prompt", "")))).text)
            return {"text": "\n\n".join(texts)}

        return generator.GeneratorEngine(each_once, self.plan.agents), self.plan.agents


def check_own_patterns(plan: Plan) -> None:
    """Check that each user-defined pattern in the tree of *plan* can be loaded and knows its settings.

    Raises:
        UsageError: If one cannot be loaded or does not know a setting.
    """
    own = list(own_patterns(plan))
    if not own:
        return
    from coterie.history.engines.patterns.registry import definition
    from coterie.team.topology.patterns.kinds import read_config

    add_folders(plan)
    for one in own:
        pattern: PatternPlan = one.coordination
        _, wrong = read_config(definition(pattern.type).kind.config, pattern.config)
        for fault in wrong:
            raise UsageError(f"{one.name}: {_sentence(fault)}")


def add_folders(plan: Plan) -> None:
    """Let Python import user-defined patterns from the folders of the files that name them, after all else."""
    for own in own_patterns(plan):
        if own.folder and own.folder not in sys.path:
            sys.path.append(own.folder)  # at the end: a file beside a topology hides no other module


def own_patterns(plan: Plan) -> Iterator[Plan]:
    """The plans in the tree of *plan* that are user-defined patterns."""
    if own_pattern(plan):
        yield plan
    for agent in plan.agents.values():
        if agent.child is not None:
            yield from own_patterns(agent.child)


def own_pattern(plan: Plan) -> str:
    """The code that coordinates *plan*, as `module:function`, if it is a user-defined pattern; else empty."""
    pattern = plan.coordination
    return pattern.type if isinstance(pattern, PatternPlan) and ":" in pattern.type else ""


def _sentence(fault: "Fault") -> str:
    return f"{fault.message}; {fault.hint}" if fault.hint else fault.message
