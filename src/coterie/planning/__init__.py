"""Turn topology and settings into a plan: the only place that resolves defaults and precedence."""

from coterie.options.backends import BACKENDS
from coterie.planning.examination import ONLY_FOR_A_RUN, examine, thinks
from coterie.planning.notes import not_executed, sentences
from coterie.planning.resolve import as_plan, plan, plan_or_raise

__all__ = [
    "BACKENDS",
    "ONLY_FOR_A_RUN",
    "as_plan",
    "examine",
    "not_executed",
    "plan",
    "plan_or_raise",
    "sentences",
    "thinks",
]
