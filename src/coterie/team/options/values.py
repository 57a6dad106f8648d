"""The kinds of option values: reading from a notation, JSON Schema, and description.

A value of a notation is plain data: texts, numbers, lists and mappings. Durations are converted to seconds.
"""

import json
import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from coterie.base.diagnostics import did_you_mean
from coterie.team.options.backends import BACKENDS, backend_hint
from coterie.team.topology.conditions import as_text, is_number

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""A reference to an environment variable."""


KEY_IN_FILE = "key-in-file"


class Unfit(ValueError):
    """An invalid value; the message describes valid ones.

    Attributes:
        hint: What to write.
        code: The code of the diagnostic.
    """

    def __init__(self, wanted: str, hint: str = "", code: str = "bad-value") -> None:
        super().__init__(wanted)
        self.wanted, self.hint, self.code = wanted, hint, code

    @property
    def is_secret(self) -> bool:
        """Whether the value must not be shown."""
        return self.code == KEY_IN_FILE


class ValueKind(Struct, frozen=True):
    """A kind of values.

    Attributes:
        form: `text`, `list`, `flag`, `seconds`, or empty: only `.at` and YAML have such a value.
        read: Converts a value for use; raises `Unfit`.
        schema: The JSON Schema of such a value in YAML.
        choices: The allowed words.
        least: The smallest number of milliseconds.
    """

    form: str
    read: Callable[[Any], Any]
    schema: Mapping[str, Any]
    choices: tuple[str, ...] = ()
    least: int = 1


def _kind(
    form: str,
    schema: Mapping[str, Any],
    fits: Callable[[Any], Any],
    wanted: str,
    hint: str = "",
    *,
    code: str = "bad-value",
    made: Callable[[Any], Any] | None = None,
) -> ValueKind:
    """Make the kind of values for which *fits* is true; *made* converts such a value."""

    def read(value: Any) -> Any:
        if not fits(value):
            raise Unfit(wanted, hint, code)
        return made(value) if made is not None else value

    return ValueKind(form, read, schema)


def _matching(pattern: str) -> Callable[[Any], Any]:
    expression = re.compile(pattern)
    return lambda value: isinstance(value, str) and expression.fullmatch(value)


def one_of(*choices: str) -> ValueKind:
    """The kind of a word out of *choices*."""

    def read(value: Any) -> str:
        if value not in choices:
            raise Unfit(f"one of {', '.join(choices)}", did_you_mean(str(value), choices))
        return str(value)

    return ValueKind("text", read, {"enum": list(choices)}, choices)


def _backend(value: Any) -> str:
    if not isinstance(value, str) or value not in BACKENDS:
        raise Unfit("a backend", backend_hint(str(value)), "unknown-backend")
    return value


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def _seconds(value: Any) -> float:
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found is not None:
        value = float(found[1]) * _UNITS[found[2]]
    if not is_number(value) or not 0 < value < float("inf"):
        raise Unfit("a duration", "write 30s, 5m or 1h; a number counts seconds")
    return float(value)


_PLAIN_COMMAND = re.compile(r"""(?! *[^ ]*=)(?:[\w ./:=,@%+-]|'[^'\n]*'|"[^"\\$`\n]*")+""")
"""A command of one program, which a shell would not change."""


def _command(value: Any) -> tuple[str, ...]:
    if isinstance(value, str) and value.strip():
        words = shlex.split(value) if _PLAIN_COMMAND.fullmatch(value) else [""]
        shown = map(_quoted, words if words[0] else ("sh", "-c", value))
        raise Unfit("a list of words", f"no shell is used: write command: [{', '.join(shown)}]")
    if not isinstance(value, list | tuple) or not value or not all(map(_is_scalar, value)) or value[0] == "":
        raise Unfit("a list of words", 'write command: ["program", "argument"]')
    return tuple(map(_text_of, value))


def _quoted(word: str) -> str:
    """*word* as every notation has it."""
    return f'"{word.translate(_ESCAPES)}"'


_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"})


def _texts(value: Any) -> tuple[str, ...]:
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list | tuple) or not all(map(_is_scalar, values)):
        raise Unfit("a list of texts", 'write ["a", "b"]')
    return tuple(map(_text_of, values))


def _commands(value: Any) -> tuple[tuple[str, ...], ...]:
    try:
        if isinstance(value, list | tuple) and value:
            return tuple(map(_command, value))
    except Unfit:
        pass
    raise Unfit("a list of commands, each a list of words", 'write gates: [["make", "test"]]')


def _env(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping) or not all(map(_is_scalar, value.values())):
        raise Unfit("a block of names and texts", 'write NAME: "value" in it')
    return {name: _text_of(text) for name, text in value.items()}


_is_function = _matching(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_is_tool_name = _matching(r"[A-Za-z0-9_-]{1,64}")


def _tools(value: Any) -> dict[str, str]:
    """`["module:function", …]`, known by the function's name, or `{ name: "module:function" }`."""
    if isinstance(value, list | tuple):
        value = {str(path).rpartition(":")[2]: path for path in value}
    if not isinstance(value, Mapping) or not all(map(_is_function, value.values())):
        raise Unfit("a list of functions", 'write tools: ["module:function"] or tools { name: "module:function" }')
    if wrong := next((name for name in value if not _is_tool_name(name)), None):
        raise Unfit("a block of functions by name", f"a model cannot call {wrong!r}: use letters, digits, _ and -")
    return dict(value)


def _schemas(value: Any) -> dict[str, dict[str, Any]]:
    """`{ issues: "{\"type\": \"array\"}" }`: a JSON Schema, as a text, for each output."""
    hint = 'write schemas { issues: "{\\"type\\": \\"array\\"}" }'
    if not isinstance(value, Mapping):
        raise Unfit("a block of JSON Schemas by output", hint)
    found = {}
    for name, text in value.items():
        try:
            schema = json.loads(text) if isinstance(text, str) else None
        except ValueError as error:
            raise Unfit(f"JSON Schemas, and that of {name!r} is no JSON", str(error)) from None
        if not isinstance(schema, dict):
            raise Unfit("a block of JSON Schemas by output", hint)
        if wrong := _unsafe(schema):
            raise Unfit(f"JSON Schemas without {wrong} in that of {name!r}", "leave it out")
        found[name] = schema
    return found


def _unsafe(schema: Any) -> str:
    """The keyword in *schema* that would fetch data or match a regular expression from a file; empty if none."""
    if isinstance(schema, list):
        return next(filter(None, map(_unsafe, schema)), "")
    if not isinstance(schema, Mapping):
        return ""
    if not str(schema.get("$ref", "#")).startswith("#"):
        return f"the $ref {schema['$ref']!r}"
    if regular := next((key for key in ("pattern", "patternProperties") if key in schema), ""):
        return repr(regular)
    by_name = [each for key in _BY_NAME for each in dict(schema.get(key) or {}).values()]
    rest = [value for key, value in schema.items() if key not in _BY_NAME]
    return next(filter(None, map(_unsafe, [*by_name, *rest])), "")


_BY_NAME = ("properties", "$defs", "definitions")
"""Keywords of JSON Schema whose keys are names."""


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | int | float)


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else as_text(value)


_STRING: Mapping[str, Any] = {"type": "string", "minLength": 1}
_STRINGS: Mapping[str, Any] = {"type": "array", "items": {"type": "string"}}
_DURATIONS: Mapping[str, Any] = {"type": ["string", "number"]}

TEXT = _kind("text", _STRING, lambda value: isinstance(value, str) and value, "a text", "write it in quotes")
TEXTS = ValueKind("list", _texts, _STRINGS)
FLAG = _kind("flag", {"type": "boolean"}, lambda value: isinstance(value, bool), "true or false")
SECONDS = ValueKind("seconds", _seconds, _DURATIONS)
SECONDS_OR_NEVER = ValueKind(
    "seconds", lambda value: 0.0 if is_number(value) and value == 0 else _seconds(value), _DURATIONS, least=0
)
"""Like `SECONDS`, or 0 for never."""
BACKEND = ValueKind("text", _backend, {"enum": sorted(BACKENDS)})
_is_class = _matching(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*[.:][A-Za-z_]\w*")
CLASS = _kind(
    "text",
    _STRING,
    _is_class,
    "the dotted path of a class",
    "write type: myapp.agents.Writer, or type: myapp.agents:write for a function",
)
_is_queue = _matching(r"[A-Za-z0-9](?:[A-Za-z0-9:./_-]{0,98}[A-Za-z0-9])?")
QUEUE = _kind("text", _STRING, _is_queue, "a name", "write letters, digits, and : . / _ - between them: queue: gpu")
_is_url = _matching(r"https?://[^\s/](?s:.*)")
URL = _kind("text", _STRING, _is_url, "an address", "write https://… or http://…", made=lambda value: value.rstrip("/"))
API_KEY = _kind(
    "text",
    _STRING,
    lambda value: isinstance(value, str) and VARIABLE.fullmatch(value),
    'a reference to an environment variable, "${PROVIDER_KEY}"',
    "keep the key out of the file: export it as PROVIDER_KEY and refer to that",
    code=KEY_IN_FILE,
)
PRICE = _kind(
    "",
    {"type": "number", "minimum": 0},
    lambda value: is_number(value) and 0 <= value < float("inf"),
    "a price",
    "write US dollars for a million tokens: 2.5",
    made=float,
)
CHARACTERS = _kind(
    "",
    {"type": "integer", "minimum": 1},
    lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 1,
    "a number of characters",
    "write a whole number from 1: 20000",
)
COMMAND = ValueKind("", _command, {"type": "array", "items": {"type": ["string", "number"]}, "minItems": 1})
COMMANDS = ValueKind("", _commands, {"type": "array", "items": {**_STRINGS, "minItems": 1}, "minItems": 1})
ENV = ValueKind("", _env, {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}})
TEXTUAL = (TEXTS, COMMAND, COMMANDS, ENV)
"""The kinds whose words are texts, whatever they look like: `5m`, `007`."""
TOOLS = ValueKind("", _tools, _STRINGS)
SCHEMAS = ValueKind("", _schemas, {"type": "object", "additionalProperties": _STRING})
BLOCK = _kind(
    "",
    {"type": "object"},
    lambda value: isinstance(value, Mapping),
    "a block",
    "write options { name: value }",
    made=dict,
)
VALUES = _kind(
    "",
    {"type": "object", "not": {"required": ["prompt"]}},
    lambda value: isinstance(value, Mapping) and "prompt" not in value,
    "a block of values by name, without 'prompt', which is the question",
    "write with { depth: 3 }",
    made=dict,
)
