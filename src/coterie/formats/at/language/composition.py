"""How one team is made of several files."""

from coterie.formats.at.language.spec import Block, Field, Own, Values, Word

PATTERN = Block(
    "pattern",
    "A named collaboration that says who is asked, in place of a flow.",
    (
        Field(
            "type",
            Own(words='debate | chain | delegation | ensemble | pipeline | crosscheck | compound | "module:function"'),
            "Which it is.",
            executed=True,
        ),
        Field("config", Values(), "Its settings.", "those of its type", executed=True),
        Field(
            "slots",
            Values(words="a block: { name: AGENT }, or { name { agent: …  capabilities: […]  calls: …  cost: … } }"),
            "Who takes part, as what.",
            executed=True,
        ),
    ),
    executed=True,
    example="pattern { type: debate  slots { proponent: ada  opponent: bob  mediator: eve } }",
)
PARAMS = Block(
    "params",
    "The values that those who import this topology may give it, or must: NAME: TYPE = DEFAULT.",
    open=True,
    executed=True,
    example="params { tone: string = dry  rounds: number }",
)
INTERFACE = Block(
    "interface",
    "What the topology shows to those that import it.",
    (
        Field("entry", Word(), "The node where it starts.", "where the arrows say", executed=True),
        Field("exit", Word(), "The node whose result is that of the whole.", "all last nodes", executed=True),
    ),
    executed=True,
    example="interface { entry: writer  exit: editor }",
)
IMPORT = Block(
    "import",
    "Another topology as a node of this one.",
    executed=True,
    example='import "./review.at" as review with { rounds: 2 }',
)
INCLUDE = Block(
    "include",
    "The declarations and the flow of a fragment, as if they stood here.",
    executed=True,
    example='include "./reviewers.at"',
)
