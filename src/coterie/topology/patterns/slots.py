"""The slots of each pattern type, and faults of the given ones."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from coterie.diagnostics import Severity, did_you_mean
from coterie.topology.patterns.configs import (
    ChainSettings,
    CompoundSettings,
    Config,
    CrossCheckSettings,
    DebateSettings,
    DelegationSettings,
    EnsembleSettings,
    PipelineSettings,
)
from coterie.topology.patterns.faults import Fault

SIDES = ("proponent", "opponent")
MEDIATOR, PRIMARY, CHECKER, AGGREGATOR, COORDINATOR = "mediator", "primary", "checker", "aggregator", "coordinator"


def mediator_of(config: DebateSettings, names: Sequence[str]) -> str:
    """The mediator's slot: `mediator`, else the one the configuration names; empty without one."""
    named = config.mediator_agent_name
    return MEDIATOR if MEDIATOR in names else named if named is not None and named in names else ""


def members(names: Sequence[str]) -> tuple[str, ...]:
    """The members of an ensemble: the slots that begin with `ensemble`, else all but `aggregator`."""
    named = tuple(name for name in names if name.startswith("ensemble"))
    return named or tuple(name for name in names if name != AGGREGATOR)


def checkers(config: CrossCheckSettings, names: Sequence[str]) -> tuple[str, ...]:
    """The checkers' slots in order; a single slot named `checker` is repeated as often as it is called."""
    found = tuple(name for name in names if name.startswith(CHECKER))
    return (CHECKER,) * config.num_checkers if found == (CHECKER,) else found


def by_level(levels: Sequence[str], names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The slots of each level: those named after it, `worker` or `worker_2`, the longest level's name first."""
    longest = sorted(levels, key=len, reverse=True)
    found: dict[str, list[str]] = {level: [] for level in levels}
    for name in names:
        for level in longest:
            if name == level or name.startswith(f"{level}_"):
                found[level].append(name)
                break
    return {level: tuple(slots) for level, slots in found.items()}


def workers(names: Sequence[str]) -> tuple[str, ...]:
    """The slots that may get a task in a delegation: all but the coordinator."""
    return tuple(name for name in names if name != COORDINATOR)


def stages(config: PipelineSettings, names: Sequence[str]) -> tuple[str, ...]:
    """The stages of a pipeline, in order."""
    return config.stages or tuple(names)


def subs(config: CompoundSettings, names: Sequence[str]) -> tuple[str, ...]:
    """The sub-topologies of a compound, in order."""
    return config.sub_topologies or tuple(names)


def of_debate(config: DebateSettings, names: Sequence[str]) -> Iterator[Fault]:
    """A debate has two sides and a mediator."""
    mediator = mediator_of(config, names)
    for side in SIDES:
        if side not in names:
            yield _missing(f"Debate requires '{side}' slot", side, names)
    if not mediator:
        named = config.mediator_agent_name
        if named is not None:
            yield _no_such("config.mediator_agent_name", named, names)
        yield _missing("Debate requires 'mediator' slot", MEDIATOR, names)
    yield from _foreign("Debate", names, (*SIDES, MEDIATOR, *([mediator] if mediator else [])))
    if config.min_rounds > config.max_rounds:
        message = f"min_rounds is {config.min_rounds}, and max_rounds {config.max_rounds}"
        yield Fault("bad-config", message, "config.min_rounds")


def of_chain(config: ChainSettings, names: Sequence[str]) -> Iterator[Fault]:
    """A chain has an agent at the top level and one at a lower level."""
    levels = config.authority_levels
    if repeated := [level for level in dict.fromkeys(levels) if levels.count(level) > 1 or not level]:
        message = f"authority_levels must be different names, but repeats {', '.join(map(repr, repeated))}"
        yield Fault("bad-config", message, "config.authority_levels")
        return
    found = by_level(levels, names)
    if not found[levels[0]]:
        hint = f"name a slot {levels[0]!r}"
        yield Fault("missing-slot", f"No agent assigned to top level: {levels[0]}", "slots", hint=hint)
    if len(levels) > 1 and not any(found[level] for level in levels[1:]):
        message = f"no level below {levels[0]!r} has an agent to do the work"
        yield Fault("missing-slot", message, "slots", hint=f"name a slot {levels[-1]!r}")
    else:
        for level in levels[1:]:
            if not found[level]:
                message = f"no slot belongs to level {level!r}, which is skipped"
                yield Fault("empty-level", message, "config.authority_levels", Severity.WARNING)
    yield from _foreign("Chain of command", names, [name for level in found.values() for name in level])


def of_delegation(config: DelegationSettings, names: Sequence[str]) -> Iterator[Fault]:
    """A delegation has workers, and a coordinator if the coordinator routes."""
    if not workers(names):
        yield Fault("missing-slot", "Delegation requires at least one agent beside the coordinator", "slots")
    if config.routing_strategy == "coordinator" and COORDINATOR not in names:
        yield _missing("Delegation requires 'coordinator' slot", COORDINATOR, names)
    elif config.routing_strategy != "coordinator" and COORDINATOR in names:
        message = f"the slot 'coordinator' is never called: routing_strategy is {config.routing_strategy}"
        yield Fault("spare-slot", message, f"slots.{COORDINATOR}", Severity.WARNING)
    fallback = config.fallback_agent_name
    if fallback is not None and fallback not in workers(names):
        yield _no_such("config.fallback_agent_name", fallback, workers(names))


def of_ensemble(config: EnsembleSettings, names: Sequence[str]) -> Iterator[Fault]:
    """An ensemble has members of one kind, and may have an aggregator."""
    found = members(names)
    if not found:
        yield Fault("missing-slot", "Ensemble requires at least one ensemble agent", "slots", hint="add `ensemble_0`")
    yield from _foreign("Ensemble", names, (*found, AGGREGATOR))
    yield from _strangers("config.accuracy", config.accuracy, found)
    if AGGREGATOR in names and config.aggregation_method != "synthesis":
        message = f"the slot 'aggregator' is never called: aggregation_method is {config.aggregation_method}"
        yield Fault("spare-slot", message, f"slots.{AGGREGATOR}", Severity.WARNING)
    if config.stop_when_decided and config.aggregation_method not in ("vote", "weighted"):
        message = f"stop_when_decided needs a vote, but aggregation_method is {config.aggregation_method!r}"
        yield Fault("bad-config", message, "config.stop_when_decided", hint="use vote or weighted")


def of_pipeline(config: PipelineSettings, names: Sequence[str]) -> Iterator[Fault]:
    """Every stage of a pipeline has an agent."""
    found = stages(config, names)
    if not found:
        yield Fault("missing-slot", "Pipeline requires at least one stage", "slots")
    for stage in dict.fromkeys(found):
        if stage not in names:
            hint = did_you_mean(stage, names)
            yield Fault("missing-slot", f"No agent for stage: {stage}", "config.stages", hint=hint)
        if found.count(stage) > 1:
            yield Fault("bad-config", f"stages names {stage!r} more than once", "config.stages")
    for stage in config.checkpoint_after:
        if stage not in found:
            yield _no_such("config.checkpoint_after", stage, found)
    yield from _spare("stage", names, found)


def of_crosscheck(config: CrossCheckSettings, names: Sequence[str]) -> Iterator[Fault]:
    """A cross-check has a primary and at least two checkers, or one that is called several times."""
    found = checkers(config, names)
    if PRIMARY not in names:
        yield _missing("Cross-check requires 'primary' agent", PRIMARY, names)
    if len(found) < 2:
        hint = "add checker_0 and checker_1, or one `checker`, which is called num_checkers times"
        yield Fault("missing-slot", "Cross-check requires at least 2 checkers", "slots", hint=hint)
    elif config.quorum > len(found):
        message = f"quorum is {config.quorum}, but there are {len(found)} checkers"
        yield Fault("bad-config", message, "config.quorum")
    mediates = config.consensus_method == "mediator"
    if mediates and MEDIATOR not in names:
        yield _missing("Cross-check by a mediator requires 'mediator' slot", MEDIATOR, names)
    yield from _foreign("Cross-check", names, (PRIMARY, *found, *([MEDIATOR] if mediates else [])))
    yield from _strangers("config.accuracy", config.accuracy, found)
    if len(config.checker_specializations) > len(found) >= 2:
        message = f"there are {len(config.checker_specializations)} specializations for {len(found)} checkers"
        yield Fault("bad-config", message, "config.checker_specializations")


def of_compound(config: CompoundSettings, names: Sequence[str]) -> Iterator[Fault]:
    """Every sub-topology of a compound exists."""
    found = subs(config, names)
    if not found:
        yield Fault("missing-slot", "Compound requires at least one sub-topology", "slots")
    for sub in dict.fromkeys(found):
        if sub not in names:
            hint = did_you_mean(sub, names)
            yield Fault("missing-slot", f"Sub-topology not found: {sub}", "config.sub_topologies", hint=hint)
    for sub in config.mapping:
        if sub not in found:
            yield _no_such("config.mapping", sub, found)
    yield from _spare("sub-topology", names, found)


def without_effect(config: Config, written: Mapping[str, Any], names: Sequence[str]) -> Iterator[Fault]:
    """Settings that have no effect in this configuration."""
    for is_idle, name, why in _idle(config, written, names):
        if is_idle:
            yield Fault("idle-config", f"{name} has no effect: {why}", f"config.{name}", Severity.WARNING)


def _idle(config: Config, written: Mapping[str, Any], names: Sequence[str]) -> Iterator[tuple[bool, str, str]]:
    """Each setting that may have no effect: whether that is so, its name, and the reason."""
    match config:
        case DebateSettings(consensus_method=decides):
            votes = decides not in ("mediator", "first_agree")
            named = config.mediator_agent_name not in (None, MEDIATOR)
            runs_on, why = not config.allow_early_termination, "allow_early_termination is false"
            yield (
                config.swap_verdict and votes,
                "swap_verdict",
                f"consensus_method is {decides}, so a vote replaces the verdict",
            )
            yield named and MEDIATOR in names, "mediator_agent_name", "there is a slot `mediator`"
            yield runs_on and "min_rounds" in written, "min_rounds", why
            threshold = "convergence_threshold"
            yield runs_on and threshold in written and decides != "first_agree", threshold, why
        case DelegationSettings(routing_strategy=routing):
            why = f"routing_strategy is {routing}"
            yield routing != "capability_match" and "load_balance" in written, "load_balance", why
            falls_back = config.fallback_agent_name is not None
            yield routing == "round_robin" and falls_back, "fallback_agent_name", why
        case EnsembleSettings(aggregation_method=method):
            uniform = method == "weighted" and config.weights == "uniform"
            unread = method != "synthesis" or AGGREGATOR not in names
            yield method != "weighted" and "weights" in written, "weights", "aggregation_method is not weighted"
            why = "weights are uniform" if uniform else "aggregation_method is neither weighted nor best_of"
            yield bool(config.accuracy) and (uniform or method not in ("weighted", "best_of")), "accuracy", why
            yield method != "average" and "average" in written, "average", "aggregation_method is not average"
            why = "there is no aggregator to read the answers"
            yield unread and "diversity_weight" in written, "diversity_weight", why
        case CrossCheckSettings(consensus_method=method):
            weighted, rejects = method == "weighted", config.require_unanimous_for_approval
            why = "weights are uniform" if weighted else "consensus_method is not weighted"
            yield bool(config.accuracy) and not (weighted and config.weights != "uniform"), "accuracy", why
            why = "consensus_method is unanimous"
            yield rejects and method == "unanimous", "require_unanimous_for_approval", why
            why = "the mediator reads all verdicts before it decides"
            yield config.stop_when_decided and method == "mediator", "stop_when_decided", why
            single = set(checkers(config, names)) == {CHECKER}
            why = "it applies only to a single slot named `checker`"
            yield not single and "num_checkers" in written, "num_checkers", why
            yield not weighted and "weights" in written, "weights", "consensus_method is not weighted"
        case PipelineSettings(retry_failed_stages=retried):
            why = "retry_failed_stages is false"
            yield not retried and "max_stage_retries" in written, "max_stage_retries", why
        case CompoundSettings(composition_type=composed):
            why = f"composition_type is {composed}"
            yield composed != "sequential" and bool(config.mapping), "mapping", why
            for name in ("failure_policy", "max_concurrency"):
                yield composed != "parallel" and name in written, name, why


def _missing(message: str, slot: str, names: Sequence[str]) -> Fault:
    return Fault("missing-slot", message, "slots", hint=did_you_mean(slot, names))


def _no_such(where: str, name: str, known: Sequence[str]) -> Fault:
    hint = did_you_mean(name, known) or (f"known slots: {', '.join(dict.fromkeys(known))}" if known else "")
    setting = where.rpartition(".")[2]
    return Fault("unknown-slot", f"{setting} names the unknown slot {name!r}", where, hint=hint)


def _strangers(where: str, named: Mapping[str, float], known: Sequence[str]) -> Iterator[Fault]:
    for name in named:
        if name not in known:
            yield _no_such(where, name, known)


def _foreign(title: str, names: Sequence[str], known: Sequence[str]) -> Iterator[Fault]:
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known)
            yield Fault("unknown-slot", f"{title} has no slot {name!r}", f"slots.{name}", hint=hint)


def _spare(what: str, names: Sequence[str], used: Sequence[str]) -> Iterator[Fault]:
    for name in names:
        if name not in used:
            message = f"the slot {name!r} is not a {what}, so it is never called"
            yield Fault("spare-slot", message, f"slots.{name}", Severity.WARNING)
