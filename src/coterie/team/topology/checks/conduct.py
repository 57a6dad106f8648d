"""Behaviour fields of agents: no contradictions, and only declared nodes."""

from collections.abc import Iterator, Sequence

from coterie.base.diagnostics import Diagnostic, Span, did_you_mean, error, note, warning
from coterie.team.topology.block import NOTHING
from coterie.team.topology.checks.facts import UNREADABLE, Facts, mended, title
from coterie.team.topology.model import Agent, ArrowGroup

_HALF = 0.005
"""Tolerance for a sum of rounded weights."""


def prompts_say_something(facts: Facts) -> Iterator[Diagnostic]:
    """A prompt is not empty; without the field, an agent gets its role and the task."""
    for node in facts.topology.nodes:
        if isinstance(node, Agent) and not node.prompt.strip() and "prompt" in node.spans:
            message = f"the prompt of {title(node)} is empty"
            yield warning("empty-prompt", message, node.spans["prompt"], "write a prompt, or remove the field")


def tools_are_listed_one_way(facts: Facts) -> Iterator[Diagnostic]:
    """An agent lists allowed or disallowed tools, not both: that leaves all other tools undefined."""
    for node in facts.agents:
        if node.extra.get("disallowed-tools") and node.tools is not None:
            message = f"{title(node)} lists both 'tools' and 'disallowed-tools'"
            hint = "keep one: it determines the other"
            yield error("tools-listed-twice", message, node.extra.place("disallowed-tools"), hint)


def compensated_nodes_are_declared(facts: Facts) -> Iterator[Diagnostic]:
    """The node that an agent compensates is declared."""
    for node in facts.agents:
        name = node.extra.get("compensates")
        if name not in ("", UNREADABLE) and name not in facts.declared:
            message = f"{title(node)} compensates {name!r}, which is not declared"
            yield facts.unknown(message, name, node.extra.place("compensates"))


def skips_can_be_judged(facts: Facts) -> Iterator[Diagnostic]:
    """`skip` is `not WORD` or a comparison with an output of a declared node."""
    for node in facts.agents:
        skip = node.extra.get("skip")
        if not skip:
            continue
        words, span = skip.split(), node.extra.place("skip")
        if len(words) == 2 and words[0] == "not":
            continue
        agent, dot, _ = words[0].partition(".")
        if len(words) != 3 or not dot or words[1] not in ("==", "!=", "<", "<=", ">", ">="):
            hint = 'write skip: agent.output == "value", or skip: not WORD'
            yield warning("bad-skip", f"'skip' of {title(node)} is not a condition: {skip!r}", span, hint)
        elif agent not in facts.declared:
            message = f"'skip' of {title(node)} reads {agent!r}, which is not declared"
            yield facts.unknown(message, agent, span)


def skips_leave_a_path(facts: Facts) -> Iterator[Diagnostic]:
    """A skipped node has no outputs, so it needs an arrow whose condition does not read them."""
    for node in facts.agents:
        if not node.extra.get("skip") or node.name not in facts.mentioned:
            continue
        groups = [facts.flow.groups[i] for i in facts.graph.groups_of(node.name)]
        if groups and all(group.when is not None and group.when.agent == node.name for group in groups):
            message = f"when {title(node)} is skipped, the flow stops: all its arrows read its outputs"
            hint = "add an arrow without a condition, or one that reads another agent"
            yield warning("skip-ends-path", message, node.extra.place("skip"), hint)


def scales_have_room(facts: Facts) -> Iterator[Diagnostic]:
    """In `scale`, the minimum does not exceed the maximum."""
    for node in facts.agents:
        scale = node.extra.get("scale", NOTHING)
        low, high = scale.get("min", 1), scale.get("max", 6)
        if low > high:
            message = f"'scale' of {title(node)} has a minimum of {low} and a maximum of {high}"
            yield note("bad-scale", message, scale.place("min" if "min" in scale.spans else "max"), "swap them")


def variants_share_all(facts: Facts) -> Iterator[Diagnostic]:
    """The weights of an agent's variants add up to 1."""
    for node in facts.agents:
        variants = node.extra.get("variants", ())
        weights = [variant.get("weight") for variant in variants if "weight" in variant.fields]
        if weights and len(weights) == len(variants) and _off(weights):
            message = f"the weights of the variants of {title(node)} add up to {sum(weights):g}, not 1"
            yield warning("weights-not-one", message, node.extra.place("variants"), "each is a share of 1")


def arrows_share_all(facts: Facts) -> Iterator[Diagnostic]:
    """The weights of the arrows that leave a node add up to 1."""
    weighed: dict[str, list[ArrowGroup]] = {}
    for group in facts.flow.groups:
        if "weight" in group.kept:
            weighed.setdefault(group.source, []).append(group)
    for source, groups in weighed.items():
        weights = [float(group.kept["weight"]) for group in groups]
        if _off(weights):
            message = f"the weights of the arrows from {source!r} add up to {sum(weights):g}, not 1"
            span = groups[-1].spans.get("weight") or groups[-1].span
            yield warning("weights-not-one", message, span, "each is a share of 1")


def _off(weights: Sequence[float]) -> bool:
    return abs(sum(weights) - 1) > _HALF


def models_are_provided(facts: Facts) -> Iterator[Diagnostic]:
    """If every provider lists its models, each agent's model and fallback models are among them."""
    providers = facts.topology.block("providers").entries
    if not providers or not all(provider.get("models") for provider in providers):
        return
    known = {model for provider in providers for model in provider.get("models")}
    names = {provider.name for provider in providers}
    for owner, model, span in _models(facts):
        prefix, slash, rest = model.partition("/")
        plain = rest if slash and prefix in names else model
        if model not in known and plain not in known:
            hint = did_you_mean(plain, known) or "add it to the models of its provider"
            message = f"no provider lists the model {model!r} of {owner}"
            yield warning("unprovided-model", message, span, hint, mended(hint, model, span))


def _models(facts: Facts) -> Iterator[tuple[str, str, Span | None]]:
    for node in facts.agents:
        if node.model not in ("", "inherit", UNREADABLE) and not node.extension:
            yield title(node), node.model, node.spans.get("model") or node.span
        for model in node.extra.get("fallback-chain", ()):
            yield title(node), model, node.extra.place("fallback-chain", model)
    settings = facts.topology.block("settings")
    for model in settings.get("fallback-chain", ()):
        yield "'settings'", model, settings.place("fallback-chain", model)
