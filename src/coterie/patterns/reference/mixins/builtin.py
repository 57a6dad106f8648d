"""The mixins that are built in."""

from coterie.patterns.reference.mixins.approval import HumanInLoopMixin
from coterie.patterns.reference.mixins.memory import MemoryMixin
from coterie.patterns.reference.mixins.reasoning import ReasoningMixin
from coterie.patterns.reference.mixins.structured import StructuredOutputMixin
from coterie.patterns.reference.mixins.tools import ToolUseMixin

MIXINS = (ToolUseMixin, MemoryMixin, ReasoningMixin, HumanInLoopMixin, StructuredOutputMixin)
