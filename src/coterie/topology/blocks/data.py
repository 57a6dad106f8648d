"""What agents hand on: schemas, artifacts, variables, and files that everybody is shown."""

from dataclasses import dataclass

from coterie.topology.blocks.base import Block, Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaField(Entry):
    """One field of a schema.

    Attributes:
        type: `string`, `number`, `integer`, `boolean`, `object`, the name of a schema, or `enum`.
        values: The members of an enum.
        is_array: The value is a list of such things.
        optional: It may be left out.
    """

    type: str = "string"
    values: tuple[str, ...] = ()
    is_array: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema(Entry):
    """The shape of a value, by its fields."""

    fields: tuple[SchemaField, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact(Entry):
    """A thing that agents produce and consume.

    Attributes:
        retention: How long it is kept, as written.
        depends_on: Names of other artifacts.
    """

    type: str = ""
    path: str = ""
    retention: str = ""
    depends_on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Context(Block):
    """The file of instructions that every agent is shown."""

    file: str = ""
    includes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable(Entry):
    """An environment variable.

    Attributes:
        value: As written, `${NAME}` included; of a secret, its address.
        kind: `plain`, `secret` (*value* says where it lies), `sensitive` (not to be shown) or `encrypted`.
    """

    value: str = ""
    kind: str = "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment(Entry):
    """A place where the team works, `staging`; what it says is in `kept`."""
