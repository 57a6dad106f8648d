"""Turn topology and settings into a plan: the only place that resolves defaults and precedence.

Other packages import `agents`, `branches`, `changes`, `codes`, `coordination`, `loop`, `loops.folder`, `on_max`,
`pattern`, `permissions`, `place`, `plan`, `presets`, `presets.catalogue`, `program`, `protection`, `providers`,
`resolve`, `system`, `systems`, `team_files`, `teams`; the rest is internal.
"""

from coterie.team.options.backends import BACKENDS
from coterie.team.planning.examination import ONLY_FOR_A_RUN, examine, thinks
from coterie.team.planning.notes import not_executed, sentences
from coterie.team.planning.resolve import as_plan, plan, plan_or_raise

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
