"""Redact the values of secret-looking environment variables in answers, events and errors.

A variable looks secret if a part of its name ends in KEY, TOKEN, SECRET, PASSWORD, PASSPHRASE, CREDENTIAL or PAT. Its
value is redacted if it has at least 6 characters and is not just a number, so `MAX_TOKENS=200000` redacts nothing.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from operator import itemgetter
from typing import Any, TypeVar

import msgspec

from coterie.agents.backends.agentside.client import TOKEN

HIDDEN = "***"
"""Replaces a secret."""

_SECRET = re.compile(
    rf"(?!COTERIE_(?!{TOKEN.removeprefix('COTERIE_')}$))"  # of Coterie's own variables, only the token is a secret
    r".*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|(?<![^_])PAT)S?(?:_|$)",
    re.IGNORECASE | re.DOTALL,
)
_SHORTEST = 6


T = TypeVar("T", bound=msgspec.Struct)


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """*environment* without variables with secret-looking names, regardless of their values.

    For programs that a repository selects and that need no secret: the filters and merge drivers of git.
    """
    return {name: value for name, value in environment.items() if not _looks_secret(name)}


class Secrets:
    """The secret values of one or more environments; *named* has the variable of each."""

    def __init__(self, *environments: Mapping[str, str]) -> None:
        self.named: dict[str, str] = {}
        for environment in environments:
            for name, value in environment.items():
                if _looks_secret(name) and _is_redacted(value):
                    self.named[value.strip()] = name
        self._keep(self.named)

    def _keep(self, values: Iterable[str]) -> None:
        # The longest first: one secret may begin with another.
        self.values = sorted(sorted(values), key=len, reverse=True)
        self._pattern: re.Pattern[str] | None = None
        self.longest = len(self.values[0]) if self.values else 0
        self.initials = frozenset(map(itemgetter(0), self.values))

    def found_in(self, text: str) -> Iterator[re.Match[str]]:
        """The secrets in *text*. The expression is only compiled if one occurs, as each attempt has its own token."""
        if not any(value in text for value in self.values):
            return iter(())
        if self._pattern is None:
            self._pattern = re.compile("|".join(map(re.escape, self.values)))
        return self._pattern.finditer(text)

    def in_json(self) -> "Secrets":
        """The same secrets, and their notations in the strings of a JSON text."""
        escaped = [json.dumps(value, ensure_ascii=ascii)[1:-1] for value in self.values for ascii in (True, False)]
        secrets = Secrets()
        secrets._keep({*self.values, *escaped})
        return secrets

    def hide(self, text: str) -> str:
        """*text* with the secrets redacted."""
        shown, at = [], 0
        for match in self.found_in(text):
            shown += [text[at : match.start()], HIDDEN]
            at = match.end()
        return "".join([*shown, text[at:]])

    def hide_in(self, value: Any) -> Any:
        """Redact the secrets in the texts and keys of *value*, plain data."""
        match value:
            case str():
                return self.hide(value)
            case dict():
                return {self.hide_in(key): self.hide_in(each) for key, each in value.items()}
            case list() | tuple():
                return [self.hide_in(each) for each in value]
        return value

    def hide_fields(self, said: T, *names: str) -> T:
        """Redact the secrets in the fields *names* of the struct *said*."""
        if not self.values:
            return said
        hidden = {name: self.hide_in(getattr(said, name)) for name in names if name in said.__struct_fields__}
        return msgspec.structs.replace(said, **hidden)


class StreamRedactor:
    """Redacts secrets in a text that arrives in pieces, even if they are split between pieces.

    A possible beginning of a secret is held back until the next piece.
    """

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._held = ""

    def feed(self, text: str, final: bool = False) -> str:
        """Add *text*, and return the text that can be shown now; with *final*, all the rest."""
        if not (text := self._held + text):
            return ""
        cut = len(text) if final else self._first_doubt(text)
        shown, at = [], 0
        for match in self._secrets.found_in(text):
            if match.start() >= cut:
                break
            shown += [text[at : match.start()], HIDDEN]
            at = match.end()
            cut = max(cut, at)
        self._held = text[cut:]
        return "".join([*shown, text[at:cut]])

    def _first_doubt(self, text: str) -> int:
        """The offset of the longest suffix of *text* that is a proper prefix of a secret."""
        secrets, size = self._secrets, len(text)
        for at in range(max(0, size - secrets.longest + 1), size):
            rest = text[at:] if text[at] in secrets.initials else ""
            if rest and any(len(value) > len(rest) and value.startswith(rest) for value in secrets.values):
                return at
        return size


def is_secret(name: str, value: str) -> bool:
    """Whether the variable *name* looks secret and *value* is a secret; a reference to one is not."""
    return _looks_secret(name) and _is_redacted(value)


@lru_cache(maxsize=1024)
def _looks_secret(name: str) -> bool:
    return _SECRET.match(name) is not None  # each attempt has an environment, of which most names are known


def _is_redacted(value: str) -> bool:
    return not value.startswith(HIDDEN) and len(value.strip()) >= _SHORTEST and not value.strip().isdecimal()
