"""The words of files about coding agents: their backends, and which backends a key is for."""

from collections.abc import Mapping

CODING = frozenset({"acp", "claude-sdk", "pi"})
"""The backends of coding agents."""
ASKING = frozenset({"acp", "claude-sdk"})
"""The backends whose agents request permission before they use a tool."""
BUILT_IN = frozenset({"command", "model"})
"""The backends of programs and models."""
REQUIRED = ("required", "no-network")
"""An agent runs in a sandbox only: as usual, or in one without a network."""
SANDBOXES = ("auto", *REQUIRED, "off")
"""Whether an agent runs in a sandbox: where one works, always, or never."""
ATTENTION_POLICIES = ("deny", "allow", "park", "fail")
"""What happens to a request for attention without an answer in time."""
INTERRUPT_POLICIES = ("retry", "resume", "adopt", "ask")
"""What happens to an attempt that an interruption or a crash of the run cut off."""

READERS: Mapping[str, frozenset[str]] = {
    "provider": frozenset({"model", "acp"}),
    "base-url": frozenset({"model"}),
    "api-key": frozenset({"model"}),
    "tools": frozenset({"model"}),
    "price-in": frozenset({"model"}),
    "price-out": frozenset({"model"}),
    "mode": frozenset({"acp"}),
    "trust-all-tools": ASKING,
    "attention": ASKING,
    "attention-timeout": ASKING,
    "attention-policy": ASKING,
    "sandbox": CODING | {"command"},
    "stall-after": CODING | {"command"},
    "gates": CODING | BUILT_IN,
    "gate-timeout": CODING | BUILT_IN,
}
"""The backends that read a key, for each key that only some backends read."""


def readers_of(key: str) -> str:
    """The backends that read *key*, as a message names them."""
    names = sorted(READERS[key])
    return "models" if names == ["model"] else f"the backends {', '.join(names)}"


GUARDS = ("gate", "read_only", "disallowed_tools", "hooks")
"""Settings of autoloop that restrict an agent and that are not built here: ignoring one would lift the restriction."""
NO_GUARD = "remove it, and restrict agents by `trust_all_tools = false`, `attention` or `sandbox`"
"""What to do about one."""
