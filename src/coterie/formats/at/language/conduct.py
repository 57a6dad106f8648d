"""What agents may say of how they answer, fail and behave."""

from coterie.formats.at.language.spec import (
    Block,
    Count,
    Duration,
    Entries,
    Field,
    Flag,
    Inner,
    Join,
    Kind,
    Many,
    Number,
    OneOf,
    Own,
    Rate,
    SchemaFields,
    Text,
    Values,
    Word,
    Words,
)

SANDBOXES = ("true", "false", "docker", "none", "network-only")
THINKING = ("off", "minimal", "low", "medium", "high", "xhigh", "max")

HOOK = Block(
    "hook",
    "A command that is run when something happens.",
    (
        Field("on", Word(), "The event: AgentStart, AgentStop, ToolUse, Error, SessionStart, SessionEnd, or another."),
        Field("matcher", Text(), "Which of these events, as a pattern.", "all"),
        Field("run", Text(), "The command."),
        Field("type", OneOf(("command", "prompt")), "Whether it is a command or a prompt.", "command"),
        Field("timeout", Duration(bare="seconds"), "How long it may take; a number counts seconds.", "600"),
        Field("extensions", Values(), "What other systems know of it."),
    ),
)
HOOKS = Many(Entries("hook", HOOK))

RETRY = Block(
    "retry",
    "How often a failed agent is asked again, and how these attempts are spaced.",
    (
        Field("max", Own(words="a whole number, 0 or more"), "Further attempts after a failure.", "1", executed=True),
        Field("backoff", OneOf(("none", "linear", "exponential")), "How the time between them grows."),
        Field("interval", Duration(), "The time before the first."),
        Field("max-interval", Duration(), "The longest time between two."),
        Field("jitter", Flag(), "Whether these times vary at random.", "false"),
        Field("non-retryable", Words(), "Failures after which there is no further attempt."),
    ),
)

CIRCUIT_BREAKER = Block(
    "circuit-breaker",
    "When an agent that keeps failing is left alone for a while.",
    (
        Field("threshold", Count(low=1), "Failures within the window that open it.", "1"),
        Field("window", Duration(), "The time in which they count.", "1m"),
        Field("cooldown", Duration(), "How long nobody asks the agent then.", "30s"),
    ),
)

SCALE = Block(
    "scale",
    "How many instances of the agent work at once.",
    (
        Field("mode", OneOf(("auto", "fixed", "config")), "Who decides the number.", "fixed"),
        Field(
            "by",
            OneOf(("batch-count", "doc-count", "token-volume", "source-count")),
            "What it depends on.",
            "batch-count",
        ),
        Field("min", Count(low=1), "At least so many.", "1"),
        Field("max", Count(low=1), "At most so many.", "6"),
        Field("batch-size", Count(low=1), "Items for each.", "25"),
    ),
)

VARIANT = Block(
    "variant",
    "Another prompt or model of the agent.",
    (
        Field("weight", Number(low=0, high=1), "How often it is drawn."),
        Field("prompt", Own(words="a text, or { any text }"), "Its prompt."),
        Field("temperature", Number(low=0, high=2), "Its temperature."),
        Field("model", Word(), "Its model."),
    ),
)


def _sampled(name: str, kind: Kind, about: str, executed: bool = True) -> Field:
    return Field(name, kind, about, executed=executed, model_only=executed)


SAMPLING = (
    _sampled("temperature", Number(low=0, high=2), "How freely the model answers."),
    _sampled("max-tokens", Count(low=1), "How long an answer may be."),
    _sampled("top-p", Number(low=0, high=1), "Which share of the likely words is drawn from."),
    _sampled("top-k", Count(low=1), "How many of the likely words are drawn from."),
    _sampled("stop", Words(), "Texts at which an answer ends."),
    _sampled("seed", Count(), "What draws begin with, for answers that can be had again."),
    _sampled("thinking", OneOf(THINKING), "How much the model thinks before it answers."),
    _sampled("thinking-budget", Count(low=1), "How many tokens it may think."),
    _sampled("output-format", OneOf(("text", "json", "json-schema")), "The form of an answer.", False),
    _sampled("log-level", OneOf(("debug", "info", "warn", "error")), "How much is logged.", False),
)
"""How a model answers."""


FOR_MODELS = ("disallowed-tools", "max-turns", "mcp-servers")
"""What has effect where a model is asked."""

CONDUCT = tuple(
    Field(name, kind, about, default, executed=name in FOR_MODELS, model_only=name in FOR_MODELS)
    for name, kind, about, default in (
        (
            "permissions",
            OneOf(
                ("autonomous", "supervised", "interactive", "unrestricted", "auto", "plan", "confirm", "bypass"),
                open=True,
            ),
            "What the agent may do unasked.",
            "autonomous",
        ),
        ("disallowed-tools", Words(), "Tools that it may not use; all others it may.", "none"),
        ("mcp-servers", Words(names=True), "The servers whose tools it may use.", "none"),
        ("skills", Words(names=True), "The skills that it is given.", "none"),
        ("sandbox", OneOf(SANDBOXES, open=True), "Where its tools are shut in.", ""),
        ("isolation", OneOf(("worktree",)), "Whether it works in a copy of the repository.", ""),
        ("memory", Words(names=True), "The stores that it remembers by.", "none"),
        ("retrieval", Word(), "How it searches them.", ""),
        ("produces", Words(names=True), "The artifacts that it makes.", "none"),
        ("consumes", Words(names=True), "The artifacts that it needs.", "none"),
        ("input-schema", SchemaFields(), "The shape of what it is given.", ""),
        ("output-schema", SchemaFields(), "The shape of what it gives back.", ""),
        ("skip", Text(words="a condition, or: not WORD"), "When it does not run.", "never"),
        ("join", Join(), "How many of the arrows into it must have come.", "all that are coming"),
        ("behavior", OneOf(("advisory", "blocking")), "Whether a failure holds up the flow.", "blocking"),
        ("background", Flag(), "Whether it runs beside the flow.", "false"),
        ("execution", Word(), "How another system runs it.", ""),
        ("max-turns", Count(low=1), "How many steps it may take in one turn.", ""),
        ("fallback-chain", Words(names=True), "The models to be asked when its own is not there.", "none"),
        ("compensates", Word(), "The node whose effects it undoes.", ""),
        ("rate-limit", Rate(), "How often it may be asked.", ""),
        ("circuit-breaker", Inner(CIRCUIT_BREAKER), "When it is left alone for a while.", ""),
        ("scale", Inner(SCALE), "How many instances of it work at once.", "one"),
        ("hooks", HOOKS, "Commands that are run when something happens to it.", ""),
        ("variants", Many(Entries("variant", VARIANT)), "Other prompts or models of it.", ""),
    )
)
