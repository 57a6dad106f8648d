"""The blocks that say what agents hand on: schemas, artifacts, variables, environments, context."""

from coterie.formats.at.language.spec import Block, Entries, Field, SchemaFields, Text, Word, Words

SCHEMA = Block(
    "schema",
    "The shape of a value: " + SchemaFields().words.removeprefix("a block: ").replace("{ name: type }; ", "") + ".",
    open=True,
)
SCHEMAS = Block(
    "schemas",
    "Shapes of values, by name.",
    entries=(Entries("schema", SCHEMA),),
    example="schemas { schema finding { title: string  notes?: array of string } }",
)

ARTIFACT = Block(
    "artifact",
    "A thing that agents produce and consume.",
    (
        Field("type", Word(), "Its form: markdown, json, …"),
        Field("path", Text(), "Where it lies."),
        Field("retention", Text(words="a duration"), "How long it is kept."),
        Field("depends-on", Words(names=True), "The artifacts that it is made from."),
    ),
)
ARTIFACTS = Block(
    "artifacts",
    "The things that agents produce and consume.",
    entries=(Entries("artifact", ARTIFACT, bare=True),),
    example='artifacts { artifact report { type: markdown  path: "report.md" } }',
)

ENV = Block(
    "env",
    "Environment variables: NAME: value, or secret, sensitive or encrypted before the value.",
    open=True,
    example='env { MODE: fast  API_KEY: secret "vault://team/key" }',
)

ENVIRONMENTS = Block(
    "environments",
    "The places where the team works, each with values of its own.",
    entries=(Entries("", Block("environment", "A place where the team works.", open=True)),),
    example='environments { staging { url: "staging.example.com" } }',
)

CONTEXT = Block(
    "context",
    "The file of instructions that every agent is shown.",
    (
        Field("file", Text(), "Its name."),
        Field("includes", Words(), "Further files."),
    ),
    example='context { file: "TEAM.md" }',
)
