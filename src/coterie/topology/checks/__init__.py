"""The rules that a topology must keep, one generator each.

To add a rule, write a generator over `Facts` in the module of its subject and add it to `RULES`. Each fault is reported
once: a rule skips what another rule reports.
"""

from collections.abc import Callable, Iterator

from coterie.diagnostics import Diagnostic
from coterie.topology.checks import (
    agents,
    arrows,
    attributes,
    composition,
    conduct,
    gates,
    knowledge,
    loops,
    names,
    operation,
    patterns,
    reach,
    roles,
    shape,
)
from coterie.topology.checks.facts import Facts
from coterie.topology.model import Topology

__all__ = ["RULES", "Facts", "Rule", "check"]

Rule = Callable[[Facts], Iterator[Diagnostic]]

RULES: tuple[Rule, ...] = (
    names.declared_once,
    names.declared_in_flow,
    names.declared_scopes,
    names.declared_fallbacks,
    names.declared_members,
    names.declared_places,
    names.declared_roles,
    names.used,
    agents.somebody_thinks,
    agents.outputs_declared_once,
    agents.bounce_back_is_for_gates,
    agents.gates_do_something,
    arrows.fan_out_is_declared,
    arrows.max_is_positive,
    arrows.scope_needs_max,
    arrows.conditions_read_outputs,
    arrows.conditions_look_upstream,
    arrows.outputs_are_covered,
    loops.cycles_are_bounded,
    loops.exhaustion_is_clear,
    loops.loops_stand_alone,
    shape.flow_is_one_piece,
    shape.everything_is_reached,
    gates.gates_stand_on_arrows,
    composition.interface_is_declared,
    attributes.arrows_are_drawn_once,
    attributes.races_have_runners,
    attributes.reflections_go_back,
    attributes.files_are_written_first,
    conduct.prompts_say_something,
    conduct.tools_are_listed_one_way,
    conduct.compensated_nodes_are_declared,
    conduct.skips_can_be_judged,
    conduct.skips_leave_a_path,
    conduct.scales_have_room,
    conduct.variants_share_all,
    conduct.arrows_share_all,
    conduct.models_are_provided,
    knowledge.stores_are_declared,
    knowledge.stores_can_work,
    knowledge.skills_are_declared,
    knowledge.artifacts_are_declared,
    knowledge.artifacts_begin_somewhere,
    knowledge.schemas_are_declared,
    reach.keys_stay_outside,
    reach.variables_are_sealed,
    reach.providers_are_clear,
    reach.servers_can_be_reached,
    reach.servers_are_declared,
    operation.patterns_are_spelt_right,
    operation.jobs_are_clear,
    operation.omitted_nodes_are_declared,
    operation.error_handler_is_declared,
    operation.error_arrows_are_declared,
    operation.handled_actions_are_there,
    operation.work_is_sent_back_to_agents,
    roles.roles_are_told_apart,
    roles.handoffs_lead_to_roles,
    roles.roles_emit,
    roles.emitted_events_count,
    roles.handled_events_come,
    roles.roles_are_answered_one_way,
    roles.teams_say_what_they_emit,
    roles.team_events_are_emitted,
    roles.team_events_can_be_chosen,
    roles.team_events_have_effect,
    patterns.type_is_known,
    patterns.pattern_fits,
    patterns.slots_are_filled,
    patterns.slots_are_told_apart,
    patterns.budgets_leave_room,
    patterns.one_thing_coordinates,
    patterns.agents_are_used,
)


def check(topology: Topology) -> list[Diagnostic]:
    """All diagnostics for *topology*, in file order."""
    facts = Facts(topology)
    found = [diagnostic for rule in RULES for diagnostic in rule(facts)]
    return sorted(found, key=lambda diagnostic: diagnostic.span.offset if diagnostic.span is not None else -1)
