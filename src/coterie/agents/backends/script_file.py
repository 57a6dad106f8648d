"""Read the JSON files of scripts, which replace agents in a rehearsal or in the mock backend."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from coterie.base.diagnostics import did_you_mean
from coterie.errors import UsageError
from coterie.team.formats import bounds

T = TypeVar("T")

Amount = Annotated[float, Meta(ge=0, le=sys.float_info.max)]
"""A finite number that is not negative."""

_UNKNOWN = "Object contains unknown field `"


class Emission(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An event to emit; a payload that is not a text is emitted as JSON."""

    topic: Annotated[str, Meta(min_length=1)]
    payload: Any = ""

    def __post_init__(self) -> None:
        if not isinstance(self.payload, str):
            msgspec.structs.force_setattr(self, "payload", json.dumps(self.payload))


def load(path: Path) -> Any:
    """The data in the JSON file at *path*.

    Raises:
        UsageError: If it cannot be read or is not JSON.
    """
    try:
        return bounds.load_json(bounds.read_bytes(path, bounds.MAX_INPUT, any_kind=True).decode())
    except OSError as error:
        raise UsageError(f"{path}: the script cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: the script is not UTF-8 text: {error.reason} at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise UsageError(f"{path}:{error.lineno}:{error.colno}: the script is not JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:  # a number or a nesting beyond all bounds
        raise UsageError(f"{path}: the script cannot be read: {error}") from None


def convert(data: Any, kind: type[T], where: str, keys: tuple[str, ...] = ()) -> T:
    """Convert *data* to *kind*.

    Args:
        where: The place of *data*, for errors.
        keys: The known keys, to suggest one for an unknown key.

    Raises:
        UsageError: If *data* is invalid, with the place.
    """
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        what, _, path = str(error).partition(" - at `$")
        if what.startswith(_UNKNOWN):
            key = what.removeprefix(_UNKNOWN).rstrip("`")
            close = did_you_mean(key, (*keys, *Emission.__struct_fields__))
            what = f"unknown key {key!r}; {close or 'known keys: ' + ', '.join(keys)}"
        raise UsageError(f"{where}{path.rstrip('`')}: {what[:1].lower()}{what[1:]}") from None
