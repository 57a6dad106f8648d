"""Read and validate the blocks `extensions { coterie { … } }`."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from coterie.base.diagnostics import Diagnostic, Span, did_you_mean, error, warning
from coterie.team.options.agents import BY_KEY, NAMES, AgentOptions
from coterie.team.options.values import Unfit
from coterie.team.topology.conditions import as_text

Report = Callable[[Diagnostic], None]


class Extension(AgentOptions, frozen=True, kw_only=True):
    """The values of one block; missing options are empty.

    Attributes:
        given: The keys it has, including those with invalid values.
        spans: The span of each value.
    """

    given: frozenset[str] = frozenset()
    spans: Mapping[str, Span] = {}


def read_extension(
    value: Mapping[str, Any],
    keys: tuple[str, ...],
    owner: str,
    spans: Mapping[str, Span | None],
    report: Report,
    called: Mapping[str, str] | None = None,
) -> Extension:
    """Convert *value* to an `Extension`; invalid entries are reported and skipped.

    Args:
        keys: The valid keys.
        owner: The owner for messages, `agent 'writer'`.
        spans: The span of each value by key; of the whole block under the empty name.
        called: The file's names of keys, where they differ.
    """
    read: dict[str, Any] = {}
    for key, given in value.items():
        span = spans.get(key) or spans.get("")
        if key not in keys:
            hint = did_you_mean(key, keys) or f"known keys: {', '.join(keys)}"
            report(warning("unknown-key", f"{key!r} has no meaning in the coterie extension of {owner}", span, hint))
            continue
        try:
            read[NAMES[key]] = BY_KEY[key].kind.read(given)
        except Unfit as wrong:
            found = "this value" if wrong.is_secret else _brief(given)
            message = f"{(called or {}).get(key, key)!r} of {owner} must be {wrong.wanted}, not {found}"
            report(replace(error(wrong.code, message, span, wrong.hint), secret=wrong.is_secret))
    places = {key: span for key in value if (span := spans.get(key) or spans.get(""))}
    return Extension(**read, given=frozenset(value), spans=places)


def _brief(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a block"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    return repr(as_text(value))
